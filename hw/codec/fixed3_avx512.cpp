// fixed3 in 64-byte vectors. The byte permute of VBMI takes 6-bit indices and ignores two bits, so that a
// table of 64 entries looks up one of two packed codes without unpacking them; the byte expand of VBMI2 puts
// a row's escapes in place without a branch.
#include "hw/codec/fixed3_kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <array>

#define MOELAB_AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,popcnt")))

namespace moelab::fixed3 {
namespace {

MOELAB_AVX512 inline __m512i load64(const std::uint8_t* from) {
  return _mm512_loadu_si512(from);
}

using Bytes = std::array<std::uint8_t, 64>;

template <class Function>
constexpr Bytes make_bytes(Function function) {
  Bytes bytes{};
  for (unsigned i = 0; i < 64; ++i) bytes[i] = static_cast<std::uint8_t>(function(i));
  return bytes;
}

alignas(64) constexpr Bytes kAscending = make_bytes([](unsigned i) { return i; });

/// Which bytes of (low, high) are the two halves of their interleaving: low 0, high 0, low 1, ...
alignas(64) constexpr Bytes kFront = make_bytes([](unsigned i) { return i / 2 + i % 2 * 64; });
alignas(64) constexpr Bytes kBack = make_bytes([](unsigned i) { return 32 + i / 2 + i % 2 * 64; });

/// Which code a 6-bit index means: bits 0..2, bits 3..5, and for the two rows whose codes are split, where
/// the index is [high bit of 7, high bit of 6 at 5, 4; low bits of 7 at 3, 2; low bits of 6 at 1, 0].
alignas(64) constexpr Bytes kLow = make_bytes([](unsigned i) { return i & 7; });
alignas(64) constexpr Bytes kHigh = make_bytes([](unsigned i) { return i >> 3; });
alignas(64) constexpr Bytes kSix = make_bytes([](unsigned i) { return (i & 3) | (i >> 4 & 1) << 2; });
alignas(64) constexpr Bytes kSeven = make_bytes([](unsigned i) { return (i >> 2 & 3) | (i >> 5) << 2; });

/// The table by each kind of index.
struct Tables {
  __m512i low, high, six, seven, escape;
};

MOELAB_AVX512 inline Tables make_tables(const Table& table) {
  const __m512i eight = _mm512_set1_epi64(static_cast<long long>(load<std::uint64_t>(table.data())));
  return {_mm512_permutexvar_epi8(load64(kLow.data()), eight),
          _mm512_permutexvar_epi8(load64(kHigh.data()), eight),
          _mm512_permutexvar_epi8(load64(kSix.data()), eight),
          _mm512_permutexvar_epi8(load64(kSeven.data()), eight),
          _mm512_set1_epi8(static_cast<char>(table[7]))};
}

constexpr int kSelect = 0xCA;  // ternary logic: first operand ? second : third

/// Where vectors go, one after the other.
template <bool streaming>
class Output;

template <>
class Output<false> {
 public:
  MOELAB_AVX512 explicit Output(void* to) : to_(static_cast<std::uint8_t*>(to)) {}
  MOELAB_AVX512 void put(__m512i vector) {
    _mm512_storeu_si512(to_, vector);
    to_ += 64;
  }
  MOELAB_AVX512 void finish() {}

 private:
  std::uint8_t* to_;
};

/// Streaming stores take whole aligned lines: each is put together of the end of a vector and the beginning
/// of the next. Only the first and last line of the output may be partial; they are stored ordinarily.
template <>
class Output<true> {
 public:
  MOELAB_AVX512 explicit Output(void* to)
      : to_(static_cast<std::uint8_t*>(to)),
        ahead_(static_cast<unsigned>(-reinterpret_cast<std::uintptr_t>(to) % 64)),
        order_(_mm512_add_epi8(load64(kAscending.data()), _mm512_set1_epi8(static_cast<char>(ahead_)))) {}

  MOELAB_AVX512 void put(__m512i vector) {
    if (line_ != nullptr) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(line_), _mm512_permutex2var_epi8(last_, order_, vector));
      line_ += 64;
    } else {
      _mm512_mask_storeu_epi8(to_, (std::uint64_t{1} << ahead_) - 1, vector);
      line_ = to_ + ahead_;
    }
    last_ = vector;
  }

  /// After at least one vector.
  MOELAB_AVX512 void finish() {
    _mm512_mask_storeu_epi8(line_, ~std::uint64_t{0} >> ahead_,
                            _mm512_permutex2var_epi8(last_, order_, last_));
  }

 private:
  std::uint8_t* const to_;
  std::uint8_t* line_ = nullptr;  // the next whole line, once there was a vector
  const unsigned ahead_;          // bytes of a vector that belong to the line before
  const __m512i order_;
  __m512i last_ = _mm512_setzero_si512();
};

/// Takes rows of exponents and puts BF16 values.
template <bool streaming>
class Joining {
 public:
  MOELAB_AVX512 Joining(const std::uint8_t* sign_mantissa, std::uint16_t* bf16)
      : sign_mantissa_(sign_mantissa), output_(bf16) {}

  MOELAB_AVX512 void put(__m512i exponents) {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80)), other = load64(sign_mantissa_);
    const __m512i low = _mm512_ternarylogic_epi64(sign, _mm512_slli_epi16(exponents, 7), other, kSelect);
    const __m512i high = _mm512_ternarylogic_epi64(sign, other, _mm512_srli_epi16(exponents, 1), kSelect);
    output_.put(_mm512_permutex2var_epi8(low, load64(kFront.data()), high));
    output_.put(_mm512_permutex2var_epi8(low, load64(kBack.data()), high));
    sign_mantissa_ += kRow;
  }
  MOELAB_AVX512 void finish() { output_.finish(); }

 private:
  const std::uint8_t* sign_mantissa_;
  Output<streaming> output_;
};

template <class Sink>
MOELAB_AVX512 inline const std::uint8_t* decode_row(__m512i indices, __m512i table, __m512i escape,
                                                    const std::uint8_t* escapes, Sink& sink) {
  const __m512i values = _mm512_permutexvar_epi8(indices, table);
  const __mmask64 escaped = _mm512_cmpeq_epi8_mask(values, escape);
  sink.put(_mm512_mask_expand_epi8(values, escaped, load64(escapes)));
  return escapes + _mm_popcnt_u64(escaped);
}

/// The index of the split rows: bits 6 and 7 of each of the tile's vectors.
MOELAB_AVX512 inline __m512i split_codes(__m512i a, __m512i b, __m512i c) {
  const __m512i low = _mm512_ternarylogic_epi64(_mm512_set1_epi8(3), _mm512_srli_epi16(a, 6),
                                                _mm512_srli_epi16(b, 4), kSelect);
  return _mm512_ternarylogic_epi64(_mm512_set1_epi8(0xF), low, _mm512_srli_epi16(c, 2), kSelect);
}

template <class Sink>
MOELAB_AVX512 inline std::size_t decode_tiles(const Table& table, const std::uint8_t* codes,
                                              const std::uint8_t* escapes, std::size_t tiles, Sink sink) {
  const Tables tables = make_tables(table);
  const std::uint8_t* next = escapes;
  for (std::size_t tile = 0; tile < tiles; ++tile, codes += kTileBytes) {
    const __m512i a = load64(codes), b = load64(codes + kRow), c = load64(codes + 2 * kRow);
    const __m512i split = split_codes(a, b, c);
    next = decode_row(a, tables.low, tables.escape, next, sink);
    next = decode_row(a, tables.high, tables.escape, next, sink);
    next = decode_row(b, tables.low, tables.escape, next, sink);
    next = decode_row(b, tables.high, tables.escape, next, sink);
    next = decode_row(c, tables.low, tables.escape, next, sink);
    next = decode_row(c, tables.high, tables.escape, next, sink);
    next = decode_row(split, tables.six, tables.escape, next, sink);
    next = decode_row(split, tables.seven, tables.escape, next, sink);
  }
  sink.finish();
  return static_cast<std::size_t>(next - escapes);
}

MOELAB_AVX512 std::size_t decode(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                                 std::size_t tiles, std::uint8_t* out, bool streaming) {
  return streaming ? decode_tiles(table, codes, escapes, tiles, Output<true>(out))
                   : decode_tiles(table, codes, escapes, tiles, Output<false>(out));
}

MOELAB_AVX512 std::size_t decode_join(const Table& table, const std::uint8_t* codes,
                                      const std::uint8_t* escapes, std::size_t tiles,
                                      const std::uint8_t* sign_mantissa, std::uint16_t* bf16,
                                      bool streaming) {
  return streaming ? decode_tiles(table, codes, escapes, tiles, Joining<true>(sign_mantissa, bf16))
                   : decode_tiles(table, codes, escapes, tiles, Joining<false>(sign_mantissa, bf16));
}

template <bool streaming>
MOELAB_AVX512 inline void join_rows(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa,
                                    std::size_t rows, std::uint16_t* bf16) {
  if (rows == 0) return;
  Joining<streaming> joining(sign_mantissa, bf16);
  for (std::size_t row = 0; row < rows; ++row) joining.put(load64(exponents + row * kRow));
  joining.finish();
}

MOELAB_AVX512 void join(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa, std::size_t count,
                        std::uint16_t* bf16, bool streaming) {
  const std::size_t rows = count / kRow;
  if (streaming)
    join_rows<true>(exponents, sign_mantissa, rows, bf16);
  else
    join_rows<false>(exponents, sign_mantissa, rows, bf16);
  for (std::size_t i = rows * kRow; i < count; ++i) bf16[i] = join_one(exponents[i], sign_mantissa[i]);
}

}  // namespace

const Kernels* avx512_kernels() {
  static constexpr Kernels kernels{"avx512", decode, decode_join, join};
  return &kernels;
}

}  // namespace moelab::fixed3

#else

namespace moelab::fixed3 {
const Kernels* avx512_kernels() {
  return nullptr;
}
}  // namespace moelab::fixed3

#endif
