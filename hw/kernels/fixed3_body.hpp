// Decoding of fixed3 chunks (hw/codec/FIXED3.md) fused with recovery: one block of threads a block of 4096
// symbols, eight symbols in a row a thread, which it unpacks, looks up, fills in and joins in registers. How
// many escapes come before a thread's, the block finds by summing up.
//
// The chunk has passed fixed3::parse() on the host. That a block has as many escapes as the index says is
// checked before the first of them is read: whatever a chunk holds, nothing outside it is read.
#pragma once

#include "hw/kernels/recovery_body.hpp"

namespace moelab::kernels {

inline constexpr unsigned kFixed3Threads = 512, kFixed3Block = kFixed3Threads * kGroupElements;

/// A parsed chunk of mode coded, in memory that the kernel reads. Loads are whole 8-byte words: those that
/// hold the chunk's first and last byte are readable.
struct Fixed3Job {
  const std::uint8_t* codes;
  const std::uint8_t* escapes;
  const std::uint8_t* index;  // at a multiple of 4
  std::uint64_t symbols, blocks;
  std::uint32_t table[2];  // the byte of each code; 0 for 7

  MOELAB_HOST_DEVICE std::uint64_t escapes_before(std::uint64_t block) const {
    return block == 0 ? 0 : load_constant(reinterpret_cast<const Word32*>(index) + (block - 1));
  }
};

inline constexpr std::uint64_t kByteLanes = 0x0101010101010101;

/// Eight bytes from any address.
MOELAB_HOST_DEVICE inline std::uint64_t load_eight(const std::uint8_t* from) {
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 8 * 8);
  const auto* const words = reinterpret_cast<const Word64*>(from - shift / 8);
  const std::uint64_t low = load_constant(words);
  return shift == 0 ? low : low >> shift | load_constant(words + 1) << (64 - shift);
}

/// The codes of eight symbols in a row, a byte each: group `g` (0 ... 63) of a tile.
MOELAB_HOST_DEVICE inline std::uint64_t codes_of_group(const std::uint8_t* tile, unsigned g) {
  const unsigned row = g / 8;
  const std::uint8_t* const lanes = tile + 8 * (g % 8);
  if (row < 6) return load_eight(lanes + 64 * (row / 2)) >> (3 * (row % 2)) & 7 * kByteLanes;
  return (load_eight(lanes + 64 * (row - 6)) >> 6 & 3 * kByteLanes) |
         (load_eight(lanes + 128) >> (row - 2) & 4 * kByteLanes);
}

/// Bytes of `table` picked by four codes.
MOELAB_HOST_DEVICE inline std::uint32_t look_up_four(const std::uint32_t (&table)[2], std::uint32_t codes) {
  const std::uint32_t pairs = codes | codes >> 4;  // two nibbles in byte 0, two in byte 2
  const std::uint32_t nibbles = (pairs & 0xFF) | (pairs >> 8 & 0xFF00);
#if defined(__CUDA_ARCH__)
  return __byte_perm(table[0], table[1], nibbles);
#else
  std::uint32_t picked = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned code = nibbles >> (4 * i) & 7;
    picked |= (table[code / 4] >> (8 * (code % 4)) & 0xFF) << (8 * i);
  }
  return picked;
#endif
}

/// Bit 0 of each lane whose code is 7.
MOELAB_HOST_DEVICE inline std::uint64_t escape_lanes(std::uint64_t codes) {
  return codes & codes >> 1 & codes >> 2 & kByteLanes;
}

/// The eight symbols of these codes, with the next escapes where they belong.
MOELAB_HOST_DEVICE inline Bytes8 symbols_of(const Fixed3Job& job, std::uint64_t codes, std::uint64_t escape) {
  std::uint32_t halves[2];
  for (unsigned half = 0; half < 2; ++half) {
    const auto four = static_cast<std::uint32_t>(codes >> (32 * half));
    std::uint32_t symbols = look_up_four(job.table, four);
    const auto marks = static_cast<std::uint32_t>(escape_lanes(codes) >> (32 * half));
    if (marks != 0) {
      for (unsigned lane = 0; lane < 4; ++lane) {
        if (marks >> (8 * lane) & 1)
          symbols |= std::uint32_t{load_constant(job.escapes + escape++)} << (8 * lane);
      }
    }
    halves[half] = symbols;
  }
  return {{halves[0], halves[1]}};
}

/// Block `b` of the chunk. False where the block is not sound: nothing is written then.
template <class Team>
MOELAB_HOST_DEVICE bool fixed3_recover_block(Team& team, const Fixed3Job& job, std::uint64_t b,
                                             const JoinTarget& target) {
  static_assert(Team::kThreads == kFixed3Threads);
  constexpr unsigned tile_groups = 64, tile_bytes = 192;
  const std::uint64_t first = b * kFixed3Block, last = smaller(first + kFixed3Block, job.symbols);
  // The groups of the last tile beyond the last symbol have codes too, and these count.
  const auto groups = static_cast<unsigned>((last - first + 511) / 512 * tile_groups);
  const std::uint64_t escapes = job.escapes_before(b), escapes_end = job.escapes_before(b + 1);
  typename Team::template Each<std::uint64_t> codes;
  typename Team::template Each<std::uint32_t> before;
  team.each([&](unsigned t) {
    const std::uint8_t* const tile = job.codes + (first / 512 + t / tile_groups) * tile_bytes;
    codes[t] = t < groups ? codes_of_group(tile, t % tile_groups) : 0;
    // The product's top byte sums up all lanes.
    before[t] = static_cast<std::uint32_t>(escape_lanes(codes[t]) * kByteLanes >> 56);
  });
  if (team.exclusive_sum(before) != escapes_end - escapes) return false;
  team.each([&](unsigned t) {
    const std::uint64_t at = first + t * kGroupElements;
    if (at < last) join_group(target, symbols_of(job, codes[t], escapes + before[t]), at, first, last);
  });
  return true;
}

}  // namespace moelab::kernels
