#include "hw/codec/planes.hpp"

#include <algorithm>
#include <stdexcept>

#if defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace moelab {

namespace {

constexpr std::uint8_t byte_of(unsigned value) {
  return static_cast<std::uint8_t>(value);
}

// The two plain loops define what a split and a join are; the compiler vectorises them for each processor
// that they are instantiated for below.
[[gnu::always_inline]] inline void split_loop(const std::uint16_t* __restrict weights,
                                              std::uint8_t* __restrict exponents,
                                              std::uint8_t* __restrict sign_mantissas, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned bits = weights[i];
    exponents[i] = byte_of(bits >> 7);
    sign_mantissas[i] = byte_of((bits >> 8 & 0x80) | (bits & 0x7f));
  }
}

[[gnu::always_inline]] inline void join_loop(const std::uint8_t* __restrict exponents,
                                             const std::uint8_t* __restrict sign_mantissas,
                                             std::uint16_t* __restrict weights, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned sign_mantissa = sign_mantissas[i];
    weights[i] = static_cast<std::uint16_t>(
        (sign_mantissa & 0x80) << 8 | static_cast<unsigned>(exponents[i]) << 7 | (sign_mantissa & 0x7f));
  }
}

#if defined(__x86_64__)

constexpr std::size_t kLine = 16;  // bytes of a streaming store, and the alignment it asks for

[[gnu::target("avx2")]] void split_avx2(const std::uint16_t* weights, std::uint8_t* exponents,
                                        std::uint8_t* sign_mantissas, std::size_t count) {
  split_loop(weights, exponents, sign_mantissas, count);
}

[[gnu::target("avx2")]] void join_avx2(const std::uint8_t* exponents, const std::uint8_t* sign_mantissas,
                                       std::uint16_t* weights, std::size_t count) {
  join_loop(exponents, sign_mantissas, weights, count);
}

void split_cached(const std::uint16_t* weights, std::uint8_t* exponents, std::uint8_t* sign_mantissas,
                  std::size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  (avx2 ? split_avx2 : split_loop)(weights, exponents, sign_mantissas, count);
}

void join_cached(const std::uint8_t* exponents, const std::uint8_t* sign_mantissas, std::uint16_t* weights,
                 std::size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  (avx2 ? join_avx2 : join_loop)(exponents, sign_mantissas, weights, count);
}

__m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// Elements before `address` is a multiple of kLine, at most `count`.
std::size_t elements_to_line(const void* address, std::size_t element_bytes, std::size_t count) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(address) % kLine;
  return std::min(count, past == 0 ? 0 : (kLine - past) / element_bytes);
}

/// Streams the exponents; the sign-mantissas too where they lie alike, else through the cache: two arrays
/// cannot both be brought to a line's start by skipping elements if their addresses differ modulo a line.
template <bool kBoth>
void split_lines(const std::uint16_t* weights, std::uint8_t* exponents, std::uint8_t* sign_mantissas,
                 std::size_t count) {
  const __m128i low_byte = _mm_set1_epi16(0x00ff), sign = _mm_set1_epi16(0x0080),
                mantissa = _mm_set1_epi16(0x007f);
  for (std::size_t i = 0; i < count; i += kLine) {
    const __m128i a = load(weights + i), b = load(weights + i + 8);
    const __m128i exponent = _mm_packus_epi16(_mm_and_si128(_mm_srli_epi16(a, 7), low_byte),
                                              _mm_and_si128(_mm_srli_epi16(b, 7), low_byte));
    const __m128i rest =
        _mm_packus_epi16(_mm_or_si128(_mm_and_si128(_mm_srli_epi16(a, 8), sign), _mm_and_si128(a, mantissa)),
                         _mm_or_si128(_mm_and_si128(_mm_srli_epi16(b, 8), sign), _mm_and_si128(b, mantissa)));
    _mm_stream_si128(reinterpret_cast<__m128i*>(exponents + i), exponent);
    auto* to = reinterpret_cast<__m128i*>(sign_mantissas + i);
    kBoth ? _mm_stream_si128(to, rest) : _mm_storeu_si128(to, rest);
  }
}

void split_streaming(const std::uint16_t* weights, std::uint8_t* exponents, std::uint8_t* sign_mantissas,
                     std::size_t count) {
  const std::size_t head = elements_to_line(exponents, 1, count);
  const std::size_t lines = (count - head) / kLine * kLine;
  split_loop(weights, exponents, sign_mantissas, head);
  const bool alike = elements_to_line(sign_mantissas + head, 1, count) == 0;
  (alike ? split_lines<true> : split_lines<false>)(weights + head, exponents + head, sign_mantissas + head,
                                                   lines);
  const std::size_t done = head + lines;
  split_loop(weights + done, exponents + done, sign_mantissas + done, count - done);
  _mm_sfence();  // streaming stores are weakly ordered: without it, another thread told "done" could read
                 // stale bytes
}

void join_streaming(const std::uint8_t* exponents, const std::uint8_t* sign_mantissas, std::uint16_t* weights,
                    std::size_t count) {
  const std::size_t head = elements_to_line(weights, 2, count);
  join_loop(exponents, sign_mantissas, weights, head);
  const __m128i sign = _mm_set1_epi8(static_cast<char>(0x80)), low7 = _mm_set1_epi8(0x7f);
  std::size_t i = head;
  for (; i + kLine <= count; i += kLine) {
    const __m128i exponent = load(exponents + i), rest = load(sign_mantissas + i);
    // A byte at a time, for want of byte shifts: shift 16-bit lanes and mask what crossed over.
    const __m128i high =
        _mm_or_si128(_mm_and_si128(rest, sign), _mm_and_si128(_mm_srli_epi16(exponent, 1), low7));
    const __m128i low =
        _mm_or_si128(_mm_and_si128(rest, low7), _mm_and_si128(_mm_slli_epi16(exponent, 7), sign));
    _mm_stream_si128(reinterpret_cast<__m128i*>(weights + i), _mm_unpacklo_epi8(low, high));
    _mm_stream_si128(reinterpret_cast<__m128i*>(weights + i + 8), _mm_unpackhi_epi8(low, high));
  }
  join_loop(exponents + i, sign_mantissas + i, weights + i, count - i);
  _mm_sfence();
}

#elif defined(__aarch64__)

// vld2 and vst2 part and zip the bytes of 16 weights in one instruction, which the compiler does not find by
// itself.
void split_cached(const std::uint16_t* weights, std::uint8_t* exponents, std::uint8_t* sign_mantissas,
                  std::size_t count) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16x2_t bytes = vld2q_u8(reinterpret_cast<const std::uint8_t*>(weights + i));
    vst1q_u8(exponents + i, vsriq_n_u8(vshlq_n_u8(bytes.val[1], 1), bytes.val[0], 7));
    vst1q_u8(sign_mantissas + i, vbslq_u8(sign, bytes.val[1], bytes.val[0]));
  }
  split_loop(weights + i, exponents + i, sign_mantissas + i, count - i);
}

void join_cached(const std::uint8_t* exponents, const std::uint8_t* sign_mantissas, std::uint16_t* weights,
                 std::size_t count) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t exponent = vld1q_u8(exponents + i), rest = vld1q_u8(sign_mantissas + i);
    const uint8x16x2_t bytes = {{vsliq_n_u8(rest, exponent, 7), vsriq_n_u8(rest, exponent, 1)}};
    vst2q_u8(reinterpret_cast<std::uint8_t*>(weights + i), bytes);
  }
  join_loop(exponents + i, sign_mantissas + i, weights + i, count - i);
}

#else

constexpr auto split_cached = split_loop;
constexpr auto join_cached = join_loop;

#endif

#if !defined(__x86_64__)
constexpr auto split_streaming = split_cached;  // no streaming stores
constexpr auto join_streaming = join_cached;
#endif

bool streams(Stores stores, std::size_t count) {
  return stores == Stores::streaming ||
         (stores == Stores::by_size && count * sizeof(std::uint16_t) >= kStreamingBytes);
}

void require_same_length(std::size_t weights, std::size_t exponents, std::size_t sign_mantissas) {
  if (weights != exponents || weights != sign_mantissas) {
    throw std::invalid_argument("a tensor and its two planes have the same number of elements");
  }
}

const std::uint8_t* bytes(std::span<const std::byte> span) {
  return reinterpret_cast<const std::uint8_t*>(span.data());
}
std::uint8_t* bytes(std::span<std::byte> span) {
  return reinterpret_cast<std::uint8_t*>(span.data());
}

}  // namespace

void split_planes(std::span<const std::uint16_t> weights, std::span<std::byte> exponents,
                  std::span<std::byte> sign_mantissas, Stores stores) {
  require_same_length(weights.size(), exponents.size(), sign_mantissas.size());
  const auto split = streams(stores, weights.size()) ? split_streaming : split_cached;
  split(weights.data(), bytes(exponents), bytes(sign_mantissas), weights.size());
}

void join_planes(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
                 std::span<std::uint16_t> weights, Stores stores) {
  require_same_length(weights.size(), exponents.size(), sign_mantissas.size());
  const auto join = streams(stores, weights.size()) ? join_streaming : join_cached;
  join(bytes(exponents), bytes(sign_mantissas), weights.data(), weights.size());
}

}  // namespace moelab
