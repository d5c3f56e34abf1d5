// fixed3 in 32-byte vectors: a byte shuffle looks 32 codes up at once.
#include "hw/codec/fixed3_kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include "hw/codec/fixed3_patch.hpp"

namespace moelab::fixed3 {
namespace {

MOELAB_FIXED3_TARGET inline __m256i load32(const std::uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

/// The codes of one row in 32 lanes, from the same lanes of the tile's three vectors.
template <int row>
MOELAB_FIXED3_TARGET inline __m256i codes_of(__m256i a, __m256i b, __m256i c) {
  if constexpr (row < 6) {
    const __m256i from = row < 2 ? a : row < 4 ? b : c;
    return _mm256_and_si256(row % 2 == 0 ? from : _mm256_srli_epi16(from, 3), _mm256_set1_epi8(7));
  } else {
    const __m256i low = _mm256_and_si256(_mm256_srli_epi16(row == 6 ? a : b, 6), _mm256_set1_epi8(3));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(c, row == 6 ? 4 : 5), _mm256_set1_epi8(4));
    return _mm256_or_si256(low, high);
  }
}

template <int row>
MOELAB_FIXED3_TARGET inline std::uint64_t decode_half(const std::uint8_t* tile, __m256i table,
                                                      std::uint8_t* out) {
  const __m256i codes = codes_of<row>(load32(tile), load32(tile + kRow), load32(tile + 2 * kRow));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(table, codes));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(codes, _mm256_set1_epi8(7))));
}

template <int row>
MOELAB_FIXED3_TARGET inline const std::uint8_t* decode_rows(const std::uint8_t* tile, __m256i table,
                                                            const std::uint8_t* escapes, std::uint8_t* out) {
  const std::uint64_t low = decode_half<row>(tile, table, out);
  const std::uint64_t high = decode_half<row>(tile + 32, table, out + 32);
  escapes = patch(low | high << 32, escapes, out);
  if constexpr (row < 7) return decode_rows<row + 1>(tile, table, escapes, out + kRow);
  return escapes;
}

/// Never streams: patches come after the stores.
MOELAB_FIXED3_TARGET std::size_t decode(const Table& table, const std::uint8_t* codes,
                                        const std::uint8_t* escapes, std::size_t tiles, std::uint8_t* out,
                                        bool /*streaming*/) {
  const __m256i spread = _mm256_set1_epi64x(static_cast<long long>(load<std::uint64_t>(table.data())));
  const std::uint8_t* const first = escapes;
  for (std::size_t tile = 0; tile < tiles; ++tile)
    escapes = decode_rows<0>(codes + tile * kTileBytes, spread, escapes, out + tile * kTile);
  return static_cast<std::size_t>(escapes - first);
}

struct Joined {
  __m256i first, second;  // 16 BF16 values each
};

MOELAB_FIXED3_TARGET inline Joined join32(__m256i exponent, __m256i sign_mantissa) {
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i low = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(exponent, 7), sign),
                                      _mm256_andnot_si256(sign, sign_mantissa));
  const __m256i high = _mm256_or_si256(_mm256_andnot_si256(sign, _mm256_srli_epi16(exponent, 1)),
                                       _mm256_and_si256(sign, sign_mantissa));
  const __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
  return {_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)};
}

template <bool streaming>
MOELAB_FIXED3_TARGET void join_vectors(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa,
                                       std::size_t count, std::uint16_t* bf16) {
  std::size_t i = 0;
  if (streaming)
    for (; i < count && reinterpret_cast<std::uintptr_t>(bf16 + i) % 64 != 0; ++i)
      bf16[i] = join_one(exponents[i], sign_mantissa[i]);
  for (; i + 32 <= count; i += 32) {
    const Joined joined = join32(load32(exponents + i), load32(sign_mantissa + i));
    auto* const to = reinterpret_cast<__m256i*>(bf16 + i);
    if constexpr (streaming) {
      _mm256_stream_si256(to, joined.first);
      _mm256_stream_si256(to + 1, joined.second);
    } else {
      _mm256_storeu_si256(to, joined.first);
      _mm256_storeu_si256(to + 1, joined.second);
    }
  }
  for (; i < count; ++i) bf16[i] = join_one(exponents[i], sign_mantissa[i]);
}

void join(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa, std::size_t count,
          std::uint16_t* bf16, bool streaming) {
  (streaming ? join_vectors<true> : join_vectors<false>)(exponents, sign_mantissa, count, bf16);
}

std::size_t decode_join(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                        std::size_t tiles, const std::uint8_t* sign_mantissa, std::uint16_t* bf16,
                        bool streaming) {
  alignas(32) std::uint8_t exponents[kBlock + kSlack];
  const std::size_t used = decode(table, codes, escapes, tiles, exponents, false);
  join(exponents, sign_mantissa, tiles * kTile, bf16, streaming);
  return used;
}

}  // namespace

const Kernels* avx2_kernels() {
  static constexpr Kernels kernels{"avx2", decode, decode_join, join};
  return &kernels;
}

}  // namespace moelab::fixed3

#else

namespace moelab::fixed3 {
const Kernels* avx2_kernels() {
  return nullptr;
}
}  // namespace moelab::fixed3

#endif
