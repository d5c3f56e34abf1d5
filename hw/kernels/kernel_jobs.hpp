// What the kernels are told of a stream that the host has parsed and copied to where they run.
#pragma once

#include <cstddef>
#include <span>

#include "hw/codec/fixed3_format.hpp"
#include "hw/codec/huffman_stream.hpp"
#include "hw/kernels/fixed3_body.hpp"
#include "hw/kernels/huffman_body.hpp"

namespace moelab::kernels {

/// Both copies begin at a multiple of 16 and are readable up to the next multiple of 16 after their end.
inline constexpr std::size_t kCopyAlignment = 16;

/// `stored` is what `stream` was parsed from, `copy` its copy.
HuffmanJob huffman_job(std::span<const std::byte> stored, const HuffmanStream& stream,
                       const std::uint8_t* copy);

/// `chunk` is what `view` was parsed from, `copy` its copy. For mode coded; a raw chunk is a plane, at byte
/// fixed3::kHeaderBytes.
Fixed3Job fixed3_job(std::span<const std::byte> chunk, const fixed3::View& view, const std::uint8_t* copy);

/// Bytes of shared memory that a block of the Huffman decoder writes symbols to: what the stream's largest
/// block needs, so that it takes one window, unless that is more than kMaxWindow.
std::uint32_t huffman_window(const HuffmanStream& stream);

/// With the table of runs, what a block may have without asking for more than the usual 48 KiB.
inline constexpr std::uint32_t kMaxWindow = 32 << 10;

}  // namespace moelab::kernels
