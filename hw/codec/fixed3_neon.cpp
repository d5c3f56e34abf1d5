// fixed3 in 16-byte vectors of AArch64: a table lookup instruction takes 16 codes at once.
#include "hw/codec/fixed3_kernels.hpp"

#if defined(__aarch64__) && !defined(__AARCH64EB__)

#include <arm_neon.h>

#include "hw/codec/fixed3_patch.hpp"

namespace moelab::fixed3 {
namespace {

/// The codes of one row in 16 lanes, from the same lanes of the tile's three vectors.
template <int row>
inline uint8x16_t codes_of(uint8x16_t a, uint8x16_t b, uint8x16_t c) {
  if constexpr (row < 6) {
    const uint8x16_t from = row < 2 ? a : row < 4 ? b : c;
    if constexpr (row % 2 == 0)
      return vandq_u8(from, vdupq_n_u8(7));
    else
      return vandq_u8(vshrq_n_u8(from, 3), vdupq_n_u8(7));
  } else if constexpr (row == 6) {
    return vorrq_u8(vshrq_n_u8(a, 6), vandq_u8(vshrq_n_u8(c, 4), vdupq_n_u8(4)));
  } else {
    return vorrq_u8(vshrq_n_u8(b, 6), vandq_u8(vshrq_n_u8(c, 5), vdupq_n_u8(4)));
  }
}

template <int row>
inline uint8x16_t decode_quarter(const std::uint8_t* tile, uint8x16_t table, std::uint8_t* out) {
  const uint8x16_t codes = codes_of<row>(vld1q_u8(tile), vld1q_u8(tile + kRow), vld1q_u8(tile + 2 * kRow));
  vst1q_u8(out, vqtbl1q_u8(table, codes));
  return vceqq_u8(codes, vdupq_n_u8(7));
}

/// One bit for each of 64 lanes that are all ones or all zeros.
inline std::uint64_t mask_of(uint8x16_t q0, uint8x16_t q1, uint8x16_t q2, uint8x16_t q3) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  const uint8x16_t half0 = vpaddq_u8(vandq_u8(q0, bit), vandq_u8(q1, bit));
  const uint8x16_t half1 = vpaddq_u8(vandq_u8(q2, bit), vandq_u8(q3, bit));
  const uint8x16_t whole = vpaddq_u8(half0, half1);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(whole, whole)), 0);
}

template <int row>
inline const std::uint8_t* decode_rows(const std::uint8_t* tile, uint8x16_t table,
                                       const std::uint8_t* escapes, std::uint8_t* out) {
  const uint8x16_t q0 = decode_quarter<row>(tile, table, out);
  const uint8x16_t q1 = decode_quarter<row>(tile + 16, table, out + 16);
  const uint8x16_t q2 = decode_quarter<row>(tile + 32, table, out + 32);
  const uint8x16_t q3 = decode_quarter<row>(tile + 48, table, out + 48);
  escapes = patch(mask_of(q0, q1, q2, q3), escapes, out);
  if constexpr (row < 7) return decode_rows<row + 1>(tile, table, escapes, out + kRow);
  return escapes;
}

std::size_t decode(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                   std::size_t tiles, std::uint8_t* out, bool /*streaming*/) {
  const uint8x8_t entries = vld1_u8(table.data());
  const uint8x16_t spread = vcombine_u8(entries, entries);
  const std::uint8_t* const first = escapes;
  for (std::size_t tile = 0; tile < tiles; ++tile)
    escapes = decode_rows<0>(codes + tile * kTileBytes, spread, escapes, out + tile * kTile);
  return static_cast<std::size_t>(escapes - first);
}

/// AArch64 has no streaming stores that compilers offer; its caches notice runs of whole-line writes
/// themselves.
void join(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa, std::size_t count,
          std::uint16_t* bf16, bool /*streaming*/) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t exponent = vld1q_u8(exponents + i), other = vld1q_u8(sign_mantissa + i);
    const uint8x16x2_t bytes = {vbslq_u8(sign, vshlq_n_u8(exponent, 7), other),
                                vbslq_u8(sign, other, vshrq_n_u8(exponent, 1))};
    vst2q_u8(reinterpret_cast<std::uint8_t*>(bf16 + i), bytes);
  }
  for (; i < count; ++i) bf16[i] = join_one(exponents[i], sign_mantissa[i]);
}

std::size_t decode_join(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                        std::size_t tiles, const std::uint8_t* sign_mantissa, std::uint16_t* bf16,
                        bool streaming) {
  std::uint8_t exponents[kBlock + kSlack];
  const std::size_t used = decode(table, codes, escapes, tiles, exponents, false);
  join(exponents, sign_mantissa, tiles * kTile, bf16, streaming);
  return used;
}

}  // namespace

const Kernels* neon_kernels() {
  static constexpr Kernels kernels{"neon", decode, decode_join, join};
  return &kernels;
}

}  // namespace moelab::fixed3

#else

namespace moelab::fixed3 {
const Kernels* neon_kernels() {
  return nullptr;
}
}  // namespace moelab::fixed3

#endif
