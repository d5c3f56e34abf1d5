// The table by which the GPU decodes Huffman streams: several symbols a lookup. Made on the host, once a
// code.
#pragma once

#include <cstdint>

#include "hw/codec/huffman_code.hpp"

namespace moelab {

/// Entry i says what the whole codes within the bits of i are: up to four symbols, the first in the low byte,
/// zeros after the last. The steps, which alone the next lookup waits for, stand apart: bits 0-3 the codes'
/// bits in all, 4-6 how many there are, 8-11 the bits of the first alone.
///
/// A table in two levels, as DFloat11's, would take less than these 12 KiB, but two lookups for long codes
/// and one a symbol for all others; with codes of at most 11 bits, here one lookup yields 3.3 exponents of
/// Gaussian weights (in segments of 16 bytes).
struct alignas(16) HuffmanRuns {
  std::uint32_t symbols[std::size_t{1} << kHuffmanMaxLength];
  std::uint16_t steps[std::size_t{1} << kHuffmanMaxLength];
};

inline constexpr unsigned kMaxRun = 4;

/// The table of a code that is_complete and has a byte.
HuffmanRuns huffman_runs(const HuffmanLengths& lengths);

}  // namespace moelab
