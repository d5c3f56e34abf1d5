#include "hw/codec/codec.hpp"

#include <bit>
#include <charconv>

#include "hw/codec/codec_makers.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

bool is_power_of_two(int level) {
  return std::has_single_bit(static_cast<unsigned>(level));
}

constexpr CodecRow kTable[] = {
    {"none", "a copy: the ceiling", 0, 0, 0, nullptr, make_copy_codec},
    {"lz4", "LZ4, its fast encoder", 0, 0, 0, nullptr, make_lz4_codec},
    {"lz4hc", "LZ4, its thorough encoder", 3, 12, 9, nullptr, make_lz4hc_codec},
    {"zstd", "Zstandard", 1, 19, 1, nullptr, make_zstd_codec},
    {"zstd-literals", "Zstandard's Huffman stage alone", 0, 0, 0, nullptr, make_zstd_literals_codec},
    {"fixed3", "3 bits for the seven commonest bytes, a list of the others", 0, 0, 0, nullptr,
     make_fixed3_codec},
    {"huffman", "Huffman codes that a GPU decodes, one thread a segment of LEVEL bytes", 8, 64, 16,
     is_power_of_two, make_huffman_codec},
};

bool has_levels(const CodecRow& row) {
  return row.last_level != 0;
}

bool has_level(const CodecRow& row, int level) {
  return level >= row.first_level && level <= row.last_level &&
         (!row.level_exists || row.level_exists(level));
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const CodecRow& row : kTable) names.emplace_back(row.name);
  return names;
}

/// Every name with and without its level: what a wrong name is compared with.
std::vector<std::string> known_names() {
  std::vector<std::string> names = row_names();
  for (const CodecRow& row : kTable) {
    for (int level = row.first_level; has_levels(row) && level <= row.last_level; ++level) {
      if (has_level(row, level)) names.push_back(std::string(row.name) + "-" + std::to_string(level));
    }
  }
  return names;
}

std::string level_list(const CodecRow& row) {
  std::string list;
  for (int level = row.first_level; level <= row.last_level; ++level) {
    if (has_level(row, level)) list += (list.empty() ? " " : ", ") + std::to_string(level);
  }
  return list;
}

/// The level in "ROW-LEVEL", written as to_string writes it; -1 where `name` is not of that form.
int level_in(std::string_view name, const CodecRow& row) {
  if (!has_levels(row) || !name.starts_with(row.name) || name.substr(row.name.size(), 1) != "-") return -1;
  const std::string_view digits = name.substr(row.name.size() + 1);
  int level = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), level);
  return level >= 0 && std::to_string(level) == digits ? level : -1;
}

}  // namespace

std::span<const CodecRow> codec_table() {
  return kTable;
}

std::unique_ptr<Codec> find_codec(std::string_view name) {
  for (const CodecRow& row : kTable) {
    if (name == row.name) return row.make(row.usual_level);
    const int level = level_in(name, row);
    if (level < 0) continue;
    if (has_level(row, level)) return row.make(level);
    throw InputError("", "codec '" + std::string(name) + "': the levels of " + std::string(row.name) +
                             " are" + level_list(row));
  }
  const std::string closest = closest_name(name, known_names());
  throw InputError(
      "", "unknown codec '" + std::string(name) + "'" +
              (closest.empty() ? suggestion(name, row_names()) : " (did you mean '" + closest + "'?)"));
}

}  // namespace moelab
