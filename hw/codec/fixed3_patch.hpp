// Putting escapes where they belong, for kernels that hold a row's escapes as a 64-bit mask: AVX2 and NEON.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#define MOELAB_FIXED3_TARGET __attribute__((target("avx2,bmi,popcnt")))
#else
#define MOELAB_FIXED3_TARGET
#endif

namespace moelab::fixed3 {

/// The place of the lowest set bit; 64 if there is none, without a branch (which std::countr_zero has here).
MOELAB_FIXED3_TARGET inline std::size_t lowest_bit(std::uint64_t mask) {
#if defined(__x86_64__)
  return static_cast<std::size_t>(_tzcnt_u64(mask));
#elif defined(__aarch64__)
  std::uint64_t place;  // of 0 clz makes 64; of std::countr_zero's test for it g++ makes a branch
  __asm__("rbit %0, %1\n\tclz %0, %0" : "=r"(place) : "r"(mask));
  return place;
#else
  return static_cast<std::size_t>(std::countr_zero(mask));
#endif
}

/// Writes the next escapes at the set bits of `mask` in row `out`; returns the first escape not used. How
/// many a row has cannot be predicted, so four are always written: trained weights have 0 to 4 in nine rows
/// of ten. When the mask runs out, they land in out[64], which the next row or the caller's slack takes.
MOELAB_FIXED3_TARGET inline const std::uint8_t* patch(std::uint64_t mask, const std::uint8_t* escapes,
                                                      std::uint8_t* out) {
  const std::uint8_t* const next = escapes + std::popcount(mask);
  do {
    for (int i = 0; i < 4; ++i, mask &= mask - 1) out[lowest_bit(mask)] = *escapes++;
  } while (mask != 0);
  return next;
}

}  // namespace moelab::fixed3
