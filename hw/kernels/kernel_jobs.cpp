#include "hw/kernels/kernel_jobs.hpp"

#include <algorithm>

namespace moelab::kernels {

HuffmanJob huffman_job(std::span<const std::byte> stored, const HuffmanStream& stream,
                       const std::uint8_t* copy) {
  const auto copied = [&](std::span<const std::byte> part) { return copy + (part.data() - stored.data()); };
  return {copied(stream.code), copied(stream.positions),
          copied(stream.gaps), stream.symbols,
          stream.code_bits,    stream.segments,
          stream.blocks,       static_cast<std::uint32_t>(8 * stream.segment_bytes)};
}

Fixed3Job fixed3_job(std::span<const std::byte> chunk, const fixed3::View& view, const std::uint8_t* copy) {
  static_assert(kFixed3Block == fixed3::kBlock);
  const auto copied = [&](const std::uint8_t* part) {
    return copy + (part - reinterpret_cast<const std::uint8_t*>(chunk.data()));
  };
  Fixed3Job job = {copied(view.codes),
                   copied(view.escapes),
                   copied(view.index),
                   view.symbols,
                   fixed3::blocks_of(view.symbols),
                   {}};
  for (unsigned code = 0; code < fixed3::kTableSize; ++code)
    job.table[code / 4] |= std::uint32_t{view.table[code]} << (8 * (code % 4));
  return job;
}

std::uint32_t huffman_window(const HuffmanStream& stream) {
  std::uint64_t largest = kGroupElements;
  for (std::size_t b = 0; b < stream.blocks; ++b) {
    const std::uint64_t base = stream.position(b) / kGroupElements * kGroupElements;
    largest = std::max(largest, stream.position(b + 1) - base);
  }
  largest = (largest + kGroupElements - 1) / kGroupElements * kGroupElements;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(largest, kMaxWindow));
}

}  // namespace moelab::kernels
