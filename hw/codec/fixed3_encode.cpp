// The encoder: a histogram, then tile after tile. Plain loops over bytes that compilers turn into vectors.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>

#include "hw/codec/fixed3.hpp"
#include "hw/codec/fixed3_format.hpp"

namespace moelab {
namespace fixed3 {
namespace {

using Histogram = std::array<std::uint64_t, 256>;

/// Eight counters a byte value: planes repeat the same few values, and a counter cannot be incremented again
/// before its last increment is through.
Histogram histogram(std::span<const std::uint8_t> plane) {
  std::vector<std::array<std::uint32_t, 256>> counts(8);
  std::size_t i = 0;
  for (; i + 8 <= plane.size(); i += 8) {
    const auto word = load<std::uint64_t>(plane.data() + i);
    for (std::size_t k = 0; k < 8; ++k) ++counts[k][(word >> (8 * k)) & 0xFF];
  }
  for (; i < plane.size(); ++i) ++counts[0][plane[i]];
  Histogram sum{};
  for (const auto& part : counts)
    for (std::size_t value = 0; value < sum.size(); ++value) sum[value] += part[value];
  return sum;
}

/// The seven commonest bytes, commonest first, the smaller first among equals.
std::array<std::uint8_t, kTableSize> commonest(const Histogram& counts) {
  std::array<std::uint8_t, 256> values;
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  std::partial_sort(
      values.begin(), values.begin() + kTableSize, values.end(),
      [&](std::uint8_t a, std::uint8_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  std::array<std::uint8_t, kTableSize> table;
  std::copy_n(values.begin(), kTableSize, table.begin());
  return table;
}

class TileEncoder {
 public:
  explicit TileEncoder(const std::array<std::uint8_t, kTableSize>& table) : table_(table) {}

  /// Writes kTileBytes of codes; returns the end of the escapes written at `escapes`.
  std::uint8_t* encode(const std::uint8_t* symbols, std::uint8_t* codes, std::uint8_t* escapes) {
    look_up(symbols);
    pack(codes);
    return copy_escapes(symbols, escapes);
  }

 private:
  void look_up(const std::uint8_t* symbols) {
    const auto table = table_;  // a copy that codes_ cannot alias
    for (std::size_t i = 0; i < kTile; ++i) {
      unsigned code = 7;  // the table's bytes differ, so that at most one term is not 0
      for (unsigned k = 0; k < kTableSize; ++k) code ^= symbols[i] == table[k] ? 7 ^ k : 0;
      codes_[i] = static_cast<std::uint8_t>(code);
    }
  }

  void pack(std::uint8_t* to) const {
    const std::uint8_t* row = codes_;
    for (std::size_t i = 0; i < kRow; ++i) {
      const int six = row[6 * kRow + i], seven = row[7 * kRow + i];
      to[i] = static_cast<std::uint8_t>(row[i] | row[kRow + i] << 3 | six << 6);
      to[kRow + i] = static_cast<std::uint8_t>(row[2 * kRow + i] | row[3 * kRow + i] << 3 | seven << 6);
      to[2 * kRow + i] = static_cast<std::uint8_t>(row[4 * kRow + i] | row[5 * kRow + i] << 3 |
                                                   (six & 4) << 4 | (seven & 4) << 5);
    }
  }

  /// Like the decoder's patches: four escapes of a row are always taken, since their number cannot be
  /// predicted. They go through a buffer, since what stands behind the chunk's escapes are codes.
  std::uint8_t* copy_escapes(const std::uint8_t* symbols, std::uint8_t* to) const {
    std::uint8_t buffer[kTile + 4];
    std::uint8_t* end = buffer;
    for (std::size_t row = 0; row < kTile; row += kRow) {
      std::uint64_t mask = 0;
      for (std::size_t i = 0; i < kRow; i += 8)
        mask |= std::uint64_t{sevens(load<std::uint64_t>(codes_ + row + i))} << i;
      const std::uint8_t* const from = symbols + row;
      std::uint8_t* next = end;
      end += std::popcount(mask);
      do {
        for (int i = 0; i < 4; ++i, mask &= mask - 1)
          *next++ = from[std::countr_zero(mask | std::uint64_t{1} << 63)];
      } while (mask != 0);
    }
    return std::copy(buffer, end, to);
  }

  std::array<std::uint8_t, kTableSize> table_;
  alignas(64) std::uint8_t codes_[kTile];
};

void write_header(std::uint8_t* to, Mode mode, std::size_t symbols, std::size_t escapes) {
  store(to, kMagic);
  store(to + 4, kVersion);
  to[6] = static_cast<std::uint8_t>(mode);
  store(to + 8, static_cast<std::uint32_t>(symbols));
  store(to + 12, static_cast<std::uint32_t>(escapes));
}

/// Everything after the header. `to` has zeros.
void write_coded(std::span<const std::uint8_t> plane, const std::array<std::uint8_t, kTableSize>& table,
                 std::size_t escape_count, std::uint8_t* to) {
  std::copy(table.begin(), table.end(), to + 16);
  std::uint8_t* index = to + kHeaderBytes;
  std::uint8_t* const escapes = index + 4 * blocks_of(plane.size());
  std::uint8_t* codes = escapes + escape_count;
  std::uint8_t* next_escape = escapes;
  TileEncoder encoder(table);
  for (std::size_t at = 0; at < plane.size(); at += kTile, codes += kTileBytes) {
    if (plane.size() - at >= kTile) {
      next_escape = encoder.encode(plane.data() + at, codes, next_escape);
    } else {
      std::array<std::uint8_t, kTile> last;
      last.fill(table[0]);
      std::copy(plane.begin() + static_cast<std::ptrdiff_t>(at), plane.end(), last.begin());
      next_escape = encoder.encode(last.data(), codes, next_escape);
    }
    store(index + 4 * (at / kBlock), static_cast<std::uint32_t>(next_escape - escapes));
  }
}

}  // namespace
}  // namespace fixed3

std::vector<std::byte> fixed3_encode(std::span<const std::uint8_t> plane) {
  using namespace fixed3;
  if (plane.size() > 0xFFFFFFFF)
    throw CodecError("fixed3: a plane of " + std::to_string(plane.size()) +
                     " bytes, expected less than 2^32");
  const Histogram counts = histogram(plane);
  const auto table = commonest(counts);
  std::size_t escapes = plane.size();
  for (const std::uint8_t value : table) escapes -= counts[value];

  const std::size_t raw_size = kHeaderBytes + plane.size(), coded_size = coded_bytes(plane.size(), escapes);
  std::vector<std::byte> chunk(std::min(raw_size, coded_size));
  auto* to = reinterpret_cast<std::uint8_t*>(chunk.data());
  if (coded_size < raw_size) {
    write_header(to, Mode::coded, plane.size(), escapes);
    write_coded(plane, table, escapes, to);
  } else {
    write_header(to, Mode::raw, plane.size(), 0);
    std::copy(plane.begin(), plane.end(), to + kHeaderBytes);
  }
  return chunk;
}

}  // namespace moelab
