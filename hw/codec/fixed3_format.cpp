#include "hw/codec/fixed3_format.hpp"

#include <algorithm>
#include <string>

#include "hw/codec/codec_error.hpp"

namespace moelab::fixed3 {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw CodecError("fixed3 chunk: " + what);
}

void check_size(std::size_t found, std::size_t expected) {
  if (found == expected) return;
  refuse(std::to_string(found) + " bytes, expected " + std::to_string(expected) + " by its header");
}

Table read_table(const std::uint8_t* from) {
  Table table{};
  std::copy_n(from, kTableSize, table.begin());
  for (std::size_t i = 0; i < kTableSize; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (table[i] == table[j]) refuse("byte " + std::to_string(table[i]) + " stands in the table twice");
  table[kTableSize] = byte_outside(std::span<const std::uint8_t, kTableSize>(table.data(), kTableSize));
  return table;
}

void check_index(const View& view, std::size_t escapes) {
  for (std::size_t block = 0; block < blocks_of(view.symbols); ++block) {
    const std::size_t before = view.escapes_before(block), after = view.escapes_before(block + 1);
    const std::size_t symbols = std::min(kBlock, view.symbols - block * kBlock);
    if (after - before > symbols)  // or less than 0, which is more than any number
      refuse("the index says that escapes " + std::to_string(before) + " to " + std::to_string(after) +
             " belong to block " + std::to_string(block) + " of " + std::to_string(symbols) + " symbols");
  }
  const std::size_t listed = view.escapes_before(blocks_of(view.symbols));
  if (listed != escapes)
    refuse("the index lists " + std::to_string(listed) + " escapes, the header " + std::to_string(escapes));
}

}  // namespace

std::size_t View::escapes_before(std::size_t block) const {
  return block == 0 ? 0 : load<std::uint32_t>(index + 4 * (block - 1));
}

std::uint8_t byte_outside(std::span<const std::uint8_t, kTableSize> table) {
  std::uint8_t byte = 0;
  while (std::find(table.begin(), table.end(), byte) != table.end()) ++byte;
  return byte;
}

View parse(std::span<const std::byte> chunk) {
  if (chunk.size() < kHeaderBytes)
    refuse(std::to_string(chunk.size()) + " bytes, fewer than a header's " + std::to_string(kHeaderBytes));
  const auto* at = reinterpret_cast<const std::uint8_t*>(chunk.data());
  if (load<std::uint32_t>(at) != kMagic) refuse("does not begin with 'EXF3'");
  if (const auto version = load<std::uint16_t>(at + 4); version != kVersion)
    refuse("version " + std::to_string(version) + ", expected " + std::to_string(kVersion));
  if (at[6] > 1) refuse("mode " + std::to_string(at[6]) + ", expected 0 (raw) or 1 (coded)");
  if (at[7] != 0 || at[23] != 0) refuse("reserved header bytes are not 0");

  View view;
  view.mode = static_cast<Mode>(at[6]);
  view.symbols = load<std::uint32_t>(at + 8);
  const std::size_t escapes = load<std::uint32_t>(at + 12);
  if (view.mode == Mode::raw) {
    if (escapes != 0 || std::any_of(at + 16, at + 23, [](std::uint8_t b) { return b != 0; }))
      refuse("mode raw, but escapes or a table are named");
    check_size(chunk.size(), kHeaderBytes + view.symbols);
    view.raw = {at + kHeaderBytes, view.symbols};
    return view;
  }
  check_size(chunk.size(), coded_bytes(view.symbols, escapes));
  view.table = read_table(at + 16);
  view.index = at + kHeaderBytes;
  view.escapes = view.index + 4 * blocks_of(view.symbols);
  view.codes = view.escapes + escapes;
  view.end = at + chunk.size();
  check_index(view, escapes);
  return view;
}

}  // namespace moelab::fixed3
