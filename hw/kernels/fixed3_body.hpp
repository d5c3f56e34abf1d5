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

inline constexpr std::uint32_t kFourLanes = 0x01010101;

MOELAB_HOST_DEVICE inline Bytes8 halves_of(std::uint64_t word) {
  return {{static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)}};
}

/// Eight bytes from any address.
MOELAB_HOST_DEVICE inline std::uint64_t load_eight(const std::uint8_t* from) {
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 8 * 8);
  const auto* const words = reinterpret_cast<const Word64*>(from - shift / 8);
  const std::uint64_t low = load_constant(words);
  return shift == 0 ? low : low >> shift | load_constant(words + 1) << (64 - shift);
}

/// The codes of eight symbols in a row, a byte each: group `g` (0 ... 63) of a tile. No code crosses a byte,
/// so that halves are shifted by themselves.
MOELAB_HOST_DEVICE inline Bytes8 codes_of_group(const std::uint8_t* tile, unsigned g) {
  const unsigned row = g / 8;
  const std::uint8_t* const lanes = tile + 8 * (g % 8);
  Bytes8 codes;
  if (row < 6) {
    const Bytes8 three = halves_of(load_eight(lanes + 64 * (row / 2)));
    for (unsigned half = 0; half < 2; ++half)
      codes.words[half] = three.words[half] >> (3 * (row % 2)) & 7 * kFourLanes;
    return codes;
  }
  const Bytes8 low = halves_of(load_eight(lanes + 64 * (row - 6))), high = halves_of(load_eight(lanes + 128));
  for (unsigned half = 0; half < 2; ++half)
    codes.words[half] =
        (low.words[half] >> 6 & 3 * kFourLanes) | (high.words[half] >> (row - 2) & 4 * kFourLanes);
  return codes;
}

/// Four bytes of the eight in `low` and `high`, each picked by a number of 0 ... 7 in a byte of `which`.
MOELAB_HOST_DEVICE inline std::uint32_t pick_four(std::uint32_t low, std::uint32_t high,
                                                  std::uint32_t which) {
  const std::uint32_t pairs = which | which >> 4;  // two nibbles in byte 0, two in byte 2
  const std::uint32_t nibbles = (pairs & 0xFF) | (pairs >> 8 & 0xFF00);
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, nibbles);
#else
  const std::uint32_t from[2] = {low, high};
  std::uint32_t picked = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned byte = nibbles >> (4 * i) & 7;
    picked |= (from[byte / 4] >> (8 * (byte % 4)) & 0xFF) << (8 * i);
  }
  return picked;
#endif
}

/// Bit 0 of each lane whose code is 7.
MOELAB_HOST_DEVICE inline std::uint32_t escape_lanes(std::uint32_t codes) {
  return codes & codes >> 1 & codes >> 2 & kFourLanes;
}

/// How many of four lanes are marked: the product's top byte sums up all.
MOELAB_HOST_DEVICE inline std::uint32_t lanes_marked(std::uint32_t marks) {
  return marks * kFourLanes >> 24;
}

/// `count` bytes (1 ... 8) from any address, in the low bytes; loads no word that holds none of them.
MOELAB_HOST_DEVICE inline std::uint64_t load_some(const std::uint8_t* from, unsigned count) {
  const auto skipped = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from) % 8);
  const auto* const words = reinterpret_cast<const Word64*>(from - skipped);
  const std::uint64_t low = load_constant(words) >> (8 * skipped);
  return skipped + count <= 8 ? low : low | load_constant(words + 1) << (64 - 8 * skipped);
}

/// Four symbols with the marked ones replaced by the next of `escapes`, the first the lowest byte. A product
/// sums up the marks below each lane.
MOELAB_HOST_DEVICE inline std::uint32_t fill_four(std::uint32_t symbols, std::uint32_t marks,
                                                  std::uint32_t escapes) {
  const std::uint32_t marked_before = marks * kFourLanes - marks, mask = marks * 0xFF;
  return pick_four(escapes, symbols, (marked_before & mask) | (0x07060504 & ~mask));
}

/// The eight symbols of these codes, with the next escapes where they belong. Escapes are loaded together:
/// one by one, each would wait for the memory on its own.
MOELAB_HOST_DEVICE inline Bytes8 symbols_of(const Fixed3Job& job, const Bytes8& codes, std::uint64_t escape) {
  Bytes8 symbols = {{pick_four(job.table[0], job.table[1], codes.words[0]),
                     pick_four(job.table[0], job.table[1], codes.words[1])}};
  const std::uint32_t low = escape_lanes(codes.words[0]), high = escape_lanes(codes.words[1]);
  if ((low | high) == 0) return symbols;
  const std::uint32_t in_low = lanes_marked(low);
  const std::uint64_t escapes = load_some(job.escapes + escape, in_low + lanes_marked(high));
  symbols.words[0] = fill_four(symbols.words[0], low, static_cast<std::uint32_t>(escapes));
  symbols.words[1] = fill_four(symbols.words[1], high, static_cast<std::uint32_t>(escapes >> (8 * in_low)));
  return symbols;
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
  typename Team::template Each<Bytes8> codes;
  typename Team::template Each<Bytes8>
      signs;  // loaded before the sum, so that both loads are waited for at once
  typename Team::template Each<std::uint32_t> before;
  team.each([&](unsigned t) {
    const std::uint8_t* const tile = job.codes + (first / 512 + t / tile_groups) * tile_bytes;
    codes[t] = t < groups ? codes_of_group(tile, t % tile_groups) : Bytes8{{0, 0}};
    before[t] = lanes_marked(escape_lanes(codes[t].words[0])) + lanes_marked(escape_lanes(codes[t].words[1]));
    const std::uint64_t at = first + t * kGroupElements;
    if (whole_group(at, first, last)) signs[t] = sign_mantissas_of(target, at);
  });
  if (team.exclusive_sum(before) != escapes_end - escapes) return false;
  team.each([&](unsigned t) {
    const std::uint64_t at = first + t * kGroupElements;
    if (at >= last) return;
    const Bytes8 exponents = symbols_of(job, codes[t], escapes + before[t]);
    if (whole_group(at, first, last))
      store_group(target, exponents, signs[t], at);
    else
      join_group(target, exponents, at, first, last);
  });
  return true;
}

}  // namespace moelab::kernels
