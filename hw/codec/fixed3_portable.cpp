// fixed3 in 64-bit words, eight lanes at a time: for processors without kernels of their own, and what the
// others are tested against.
#include <bit>

#include "hw/codec/fixed3_kernels.hpp"

namespace moelab::fixed3 {
namespace {

/// The codes of one row in eight lanes, from the same lanes of the tile's three vectors.
template <int row>
std::uint64_t codes_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  if constexpr (row < 6)
    return ((row < 2 ? a : row < 4 ? b : c) >> (3 * (row % 2))) & 7 * kLanes;
  else if constexpr (row == 6)
    return (a >> 6 & 3 * kLanes) | (c >> 4 & 4 * kLanes);
  else
    return (b >> 6 & 3 * kLanes) | (c >> 5 & 4 * kLanes);
}

/// `one` in the lanes where bit 0 of `bits` is 1, `zero` where it is 0.
std::uint64_t choose(std::uint64_t bits, std::uint64_t zero, std::uint64_t one) {
  bits &= kLanes;
  return zero ^ (((bits << 8) - bits) & (zero ^ one));
}

/// The table at eight codes: a tree of choices, no lookups.
std::uint64_t look_up(std::uint64_t codes, const std::uint64_t (&table)[8]) {
  const std::uint64_t low =
      choose(codes >> 1, choose(codes, table[0], table[1]), choose(codes, table[2], table[3]));
  const std::uint64_t high =
      choose(codes >> 1, choose(codes, table[4], table[5]), choose(codes, table[6], table[7]));
  return choose(codes >> 2, low, high);
}

/// The rows from `row` on. The loop over words has no branches, so that compilers make vectors of it.
template <int row>
const std::uint8_t* decode_rows(const std::uint8_t* tile, const std::uint64_t (&table)[8],
                                const std::uint8_t* escapes, std::uint8_t* out) {
  std::uint64_t codes[kRow / 8], values[kRow / 8];
  for (std::size_t w = 0; w < kRow / 8; ++w) {
    codes[w] = codes_of<row>(load<std::uint64_t>(tile + 8 * w), load<std::uint64_t>(tile + kRow + 8 * w),
                             load<std::uint64_t>(tile + 2 * kRow + 8 * w));
    values[w] = look_up(codes[w], table);
  }
  for (std::size_t w = 0; w < kRow / 8; ++w) store(out + 8 * w, values[w]);
  std::uint64_t mask = 0;
  for (std::size_t w = 0; w < kRow / 8; ++w) mask |= std::uint64_t{sevens(codes[w])} << (8 * w);
  for (; mask != 0; mask &= mask - 1) out[std::countr_zero(mask)] = *escapes++;
  if constexpr (row < 7) return decode_rows<row + 1>(tile, table, escapes, out + kRow);
  return escapes;
}

std::size_t decode(const Table& table, const std::uint8_t* codes, const std::uint8_t* escapes,
                   std::size_t tiles, std::uint8_t* out, bool /*streaming*/) {
  std::uint64_t spread[8];
  for (std::size_t i = 0; i < 8; ++i) spread[i] = table[i] * kLanes;
  const std::uint8_t* const first = escapes;
  for (std::size_t tile = 0; tile < tiles; ++tile)
    escapes = decode_rows<0>(codes + tile * kTileBytes, spread, escapes, out + tile * kTile);
  return static_cast<std::size_t>(escapes - first);
}

void join(const std::uint8_t* exponents, const std::uint8_t* sign_mantissa, std::size_t count,
          std::uint16_t* bf16, bool /*streaming*/) {
  for (std::size_t i = 0; i < count; ++i) bf16[i] = join_one(exponents[i], sign_mantissa[i]);
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

const Kernels* portable_kernels() {
  static constexpr Kernels kernels{"portable", decode, decode_join, join};
  return &kernels;
}

}  // namespace moelab::fixed3
