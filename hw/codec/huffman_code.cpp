#include "hw/codec/huffman_code.hpp"

#include <algorithm>
#include <vector>

namespace moelab {

namespace {

struct Coin {
  std::uint64_t weight;
  bool is_package;  // of the two coins before it on the level below, else a byte
};

/// Pairs the coins of one level, cheapest first, and merges the packages with the bytes. A byte goes before a
/// package of the same weight.
std::vector<Coin> next_level(const std::vector<Coin>& level, const std::vector<Coin>& bytes) {
  std::vector<Coin> packages, merged;
  for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
    packages.push_back({level[i].weight + level[i + 1].weight, true});
  }
  merged.reserve(bytes.size() + packages.size());
  std::merge(bytes.begin(), bytes.end(), packages.begin(), packages.end(), std::back_inserter(merged),
             [](const Coin& a, const Coin& b) { return a.weight < b.weight; });
  return merged;
}

}  // namespace

ByteCounts count_bytes(std::span<const std::byte> plane) {
  ByteCounts counts{};
  for (const std::byte b : plane) ++counts[std::to_integer<std::size_t>(b)];
  return counts;
}

HuffmanLengths huffman_lengths(const ByteCounts& counts) {
  HuffmanLengths lengths{};
  std::vector<std::uint8_t> order;  // the bytes that occur, rarest first
  for (unsigned b = 0; b < 256; ++b) {
    if (counts[b] > 0) order.push_back(static_cast<std::uint8_t>(b));
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return counts[a] < counts[b]; });
  if (order.size() == 1) lengths[order[0]] = 1;
  if (order.size() < 2) return lengths;

  std::vector<Coin> bytes;
  for (const std::uint8_t b : order) bytes.push_back({counts[b], false});
  std::vector<std::vector<Coin>> levels = {bytes};
  while (levels.size() < kHuffmanMaxLength) levels.push_back(next_level(levels.back(), bytes));
  // The cheapest 2n - 2 coins of the last level, opened level by level: a byte is as long as it is met often.
  // On each level the bytes met are the rarest ones, since they were merged in order.
  std::size_t taken = 2 * order.size() - 2;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    const auto end = level->begin() + static_cast<std::ptrdiff_t>(taken);
    const auto packages = static_cast<std::size_t>(
        std::count_if(level->begin(), end, [](const Coin& coin) { return coin.is_package; }));
    for (std::size_t i = 0; i < taken - packages; ++i) ++lengths[order[i]];
    taken = 2 * packages;
  }
  return lengths;
}

bool is_complete(const HuffmanLengths& lengths) {
  unsigned filled = 0, symbols = 0;  // in units of 2^-kHuffmanMaxLength
  for (const unsigned length : lengths) {
    if (length > kHuffmanMaxLength) return false;
    symbols += length > 0;
    if (length > 0) filled += 1U << (kHuffmanMaxLength - length);
  }
  const unsigned whole = 1U << kHuffmanMaxLength;
  return symbols == 0 || filled == whole || (symbols == 1 && filled == whole / 2);
}

std::array<std::uint16_t, 256> canonical_codes(const HuffmanLengths& lengths) {
  std::array<std::uint16_t, 256> codes{};
  unsigned next = 0;
  for (unsigned length = 1; length <= kHuffmanMaxLength; ++length, next <<= 1) {
    for (unsigned b = 0; b < 256; ++b) {
      if (lengths[b] != length) continue;
      unsigned reversed = 0;
      for (unsigned i = 0; i < length; ++i) reversed |= (next >> i & 1) << (length - 1 - i);
      codes[b] = static_cast<std::uint16_t>(reversed);
      ++next;
    }
  }
  return codes;
}

HuffmanTable huffman_table(const HuffmanLengths& lengths) {
  HuffmanTable table{};
  const std::array<std::uint16_t, 256> codes = canonical_codes(lengths);
  const bool alone = std::ranges::count(lengths, 0) == 255;
  for (unsigned b = 0; b < 256; ++b) {
    if (lengths[b] == 0) continue;
    const HuffmanEntry entry = {static_cast<std::uint8_t>(b), lengths[b]};
    const std::size_t step = alone ? 1 : std::size_t{1} << lengths[b];
    for (std::size_t i = codes[b]; i < table.size(); i += step) table[i] = entry;
  }
  return table;
}

}  // namespace moelab
