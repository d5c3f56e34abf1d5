// What the tests of fixed3 share: a decoder that takes one bit at a time and the size of a chunk, both
// written from FIXED3.md alone; planes to try; every way to decode.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "hw/codec/fixed3_kernels.hpp"

namespace moelab::fixed3_reference {
using Plane = std::vector<std::uint8_t>;
using ChunkBytes = std::vector<std::byte>;

inline std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}
inline double unit(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}

inline std::uint16_t bf16_of(float value) {  // rounded to nearest even
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline std::uint8_t exponent_of(std::uint16_t bf16) {
  return static_cast<std::uint8_t>(bf16 >> 7);
}
inline std::uint8_t sign_mantissa_of(std::uint16_t bf16) {
  return static_cast<std::uint8_t>((bf16 >> 8 & 0x80) | (bf16 & 0x7F));
}

inline std::vector<std::uint16_t> normal_weights(std::size_t count, double sigma, std::mt19937_64& random) {
  std::vector<std::uint16_t> weights(count);
  for (std::uint16_t& w : weights)  // Box-Muller
    w = bf16_of(static_cast<float>(sigma * std::sqrt(-2 * std::log(unit(random))) *
                                   std::cos(2 * std::acos(-1.0) * unit(random))));
  return weights;
}

inline Plane exponents_of(const std::vector<std::uint16_t>& weights) {
  Plane plane(weights.size());
  std::transform(weights.begin(), weights.end(), plane.begin(), exponent_of);
  return plane;
}

// ---- FIXED3.md, naively ----

inline std::size_t ceil_of(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

inline std::size_t coded_size(std::size_t symbols, std::size_t escapes) {
  return 24 + 4 * ceil_of(symbols, 4096) + escapes + 192 * ceil_of(symbols, 512);
}

inline std::size_t escapes_in(const Plane& plane) {
  std::array<std::size_t, 256> counts{};
  for (const std::uint8_t value : plane) ++counts[value];
  std::sort(counts.begin(), counts.end(), std::greater<>());
  std::size_t escapes = plane.size();
  for (std::size_t i = 0; i < 7; ++i) escapes -= counts[i];
  return escapes;
}

inline std::size_t expected_size(const Plane& plane) {
  return std::min(24 + plane.size(), coded_size(plane.size(), escapes_in(plane)));
}

inline unsigned byte_at(const ChunkBytes& chunk, std::size_t at) {
  return std::to_integer<unsigned>(chunk.at(at));
}

inline std::size_t number_at(const ChunkBytes& chunk, std::size_t at, std::size_t bytes) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::size_t{byte_at(chunk, at + i)} << (8 * i);
  return value;
}

/// Where bit `k` of the code of symbol `i` stands: byte after the beginning of the codes, bit in it.
inline std::pair<std::size_t, unsigned> place_of(std::size_t i, unsigned k) {
  const std::size_t vectors = 192 * (i / 512), lane = i % 64;
  const auto row = static_cast<unsigned>(i % 512 / 64);
  if (row < 6) return {vectors + 64 * (row / 2) + lane, 3 * (row % 2) + k};
  if (k == 2) return {vectors + 128 + lane, row};
  return {vectors + 64 * (row - 6) + lane, 6 + k};
}

inline Plane decode_bit_by_bit(const ChunkBytes& chunk) {
  REQUIRE(number_at(chunk, 0, 4) == 'E' + ('X' << 8) + ('F' << 16) + ('3' << 24));
  REQUIRE(number_at(chunk, 4, 2) == 1);
  const std::size_t symbols = number_at(chunk, 8, 4), escapes = number_at(chunk, 12, 4);
  const bool raw = byte_at(chunk, 6) == 0;
  REQUIRE(chunk.size() == (raw ? 24 + symbols : coded_size(symbols, escapes)));
  const std::size_t first_escape = 24 + 4 * ceil_of(symbols, 4096), codes = first_escape + escapes;
  Plane plane;
  std::size_t used = 0;
  for (std::size_t i = 0; i < symbols; ++i) {
    if (raw) {
      plane.push_back(static_cast<std::uint8_t>(byte_at(chunk, 24 + i)));
      continue;
    }
    unsigned code = 0;
    for (unsigned k = 0; k < 3; ++k) {
      const auto [byte, bit] = place_of(i, k);
      code |= (byte_at(chunk, codes + byte) >> bit & 1) << k;
    }
    plane.push_back(static_cast<std::uint8_t>(byte_at(chunk, code < 7 ? 16 + code : first_escape + used++)));
    if (i + 1 == symbols || (i + 1) % 4096 == 0) REQUIRE(number_at(chunk, 24 + 4 * (i / 4096), 4) == used);
  }
  if (!raw) REQUIRE(used == escapes);
  return plane;
}

// ---- every way to decode ----

struct Way {
  const fixed3::Kernels* kernels;
  std::size_t stream_from;
  std::string name() const { return std::string(kernels->name) + (stream_from == 0 ? ", streaming" : ""); }
};

inline std::vector<Way> ways() {
  std::vector<Way> all;
  for (const fixed3::Kernels* kernels : fixed3::kernels_here()) {
    all.push_back({kernels, SIZE_MAX});
    all.push_back({kernels, 0});
  }
  return all;
}

/// Planes of all kinds; every kind is drawn with every size.
inline Plane random_plane(std::size_t symbols, std::size_t kind, std::mt19937_64& random) {
  const Plane alphabet = [&] {
    Plane all(256);
    for (std::size_t i = 0; i < 256; ++i) all[i] = static_cast<std::uint8_t>(i);
    std::shuffle(all.begin(), all.end(), random);
    return all;
  }();
  Plane plane(symbols);
  const std::size_t kinds = std::array<std::size_t, 5>{256, 1, 7, 8, 9}[kind % 5];
  for (std::uint8_t& value : plane) value = alphabet[below(random, kinds)];
  if (kind == 5 || kind == 6) {  // seven common ones, and escapes: here and there, or up to 60 % in a burst
    const std::size_t from = below(random, symbols + 1), burst = kind == 6 ? symbols * 6 / 10 : 0;
    for (std::size_t i = 0; i < symbols; ++i) {
      const bool escape = (i >= from && i < from + burst) || below(random, 30) == 0;
      plane[i] = alphabet[escape ? 7 + below(random, 249) : below(random, 7)];
    }
  }
  if (kind == 7)  // halving counts, like exponents
    for (std::uint8_t& value : plane)
      value = alphabet[static_cast<std::size_t>(std::countl_zero(random() | 1))];
  return plane;
}
inline constexpr std::size_t kKinds = 8;

}  // namespace moelab::fixed3_reference
