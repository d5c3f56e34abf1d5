#include "hw/codec/codec.hpp"

#include <charconv>

#include "models/input_error.hpp"

namespace moelab {

// A row a codec, in the order in which users see them: the function at the end of the codec's file.
// clang-format off
#define CODECS(row) \
  row(copy_codec) \
  row(lz4_codec) \
  row(lz4hc_codec) \
  row(zstd_codec) \
  row(zstd_literals_codec) \
  row(fixed3_codec) \
  row(huffman_codec)
// clang-format on

#define DECLARE(entry) CodecRow entry();
CODECS(DECLARE)
#undef DECLARE

std::span<const CodecRow> codec_table() {
#define CALL(entry) entry(),
  static const std::vector<CodecRow> table = {CODECS(CALL)};
#undef CALL
  return table;
}

namespace {

bool has_levels(const CodecRow& row) {
  return row.last_level != 0;
}

bool has_level(const CodecRow& row, int level) {
  return level >= row.first_level && level <= row.last_level &&
         (!row.level_exists || row.level_exists(level));
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const CodecRow& row : codec_table()) names.emplace_back(row.name);
  return names;
}

/// Every name with and without its level: what a wrong name is compared with.
std::vector<std::string> known_names() {
  std::vector<std::string> names = row_names();
  for (const CodecRow& row : codec_table()) {
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

std::unique_ptr<Codec> find_codec(std::string_view name) {
  for (const CodecRow& row : codec_table()) {
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
