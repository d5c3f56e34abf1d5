// Canonical Huffman codes of bytes, limited in length: what huffman_stream.hpp writes with, and what its
// decoders, here and on a GPU, read with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace moelab {

/// The longest code. Its table of 2,048 entries fits a GPU's shared memory beside a block's output, and a
/// CPU's L1 cache in the form that decodes several symbols a lookup; on exponents of Gaussian weights the
/// limit costs 0.2 % over unlimited codes.
inline constexpr unsigned kHuffmanMaxLength = 11;

using ByteCounts = std::array<std::uint64_t, 256>;
/// Bits of each byte's code; 0: the byte does not occur.
using HuffmanLengths = std::array<std::uint8_t, 256>;

/// How often each byte occurs.
ByteCounts count_bytes(std::span<const std::byte> plane);

/// Lengths of at most kHuffmanMaxLength whose total over `counts` no other prefix code within the limit
/// undercuts (package-merge: Larmore and Hirschberg, J. ACM 37(3), 1990). A byte alone gets one bit.
HuffmanLengths huffman_lengths(const ByteCounts& counts);

/// Whether these are the lengths of a complete prefix code: they fill the code space to the last bit (Kraft's
/// sum is 1). So are no byte at all, and one byte of one bit.
bool is_complete(const HuffmanLengths& lengths);

/// The canonical code: shorter codes first, bytes of equal length in order, counting up (RFC 1951, 3.2.2).
/// Codes are stored from the stream's low bits up, so each is reversed: bit 0 of codes[b] is the code's
/// first.
std::array<std::uint16_t, 256> canonical_codes(const HuffmanLengths& lengths);

/// What the next kHuffmanMaxLength bits of a stream begin with, one symbol at a time: `symbol` takes `bits`
/// bits.
struct HuffmanEntry {
  std::uint8_t symbol, bits;
};
using HuffmanTable = std::array<HuffmanEntry, std::size_t{1} << kHuffmanMaxLength>;

/// The table of a code that is_complete. All entries of a code of one byte are that byte.
HuffmanTable huffman_table(const HuffmanLengths& lengths);

}  // namespace moelab
