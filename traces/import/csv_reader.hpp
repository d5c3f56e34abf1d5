// Records of a CSV file (RFC 4180) from front to back, columns by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/line_reader.hpp"

namespace moelab {

/// The first record names the columns. Fields may stand in double quotes, with "" for a quote and line ends
/// inside (which read as "\n"). Blank lines are skipped. Throws InputError with file, line and column: no
/// header, two columns of one name, a record with more or fewer fields, a quote that is not closed or stands
/// within a field.
class CsvReader {
 public:
  explicit CsvReader(const std::filesystem::path& path, Progress progress = {}, char delimiter = ',');

  const std::vector<std::string>& header() const { return header_; }
  /// Place of a column. Throws InputError with the nearest name where there is none.
  std::size_t column(const std::string& name) const;
  /// The next record; false at the end.
  bool next();
  /// A field of the record; valid until the next call of next().
  std::string_view field(std::size_t column) const { return fields_[column]; }
  /// Throws InputError at a field of the record.
  [[noreturn]] void fail(std::size_t column, const std::string& what) const;
  const std::string& name() const { return lines_.name(); }
  /// Where the record begins, from 1.
  std::uint64_t line() const { return line_; }

  /// The field as a number; InputError that says what was expected (`what`: "an expert number").
  std::uint64_t unsigned_at(std::size_t column, const char* what) const;
  std::int64_t signed_at(std::size_t column, const char* what) const;
  double number_at(std::size_t column, const char* what) const;

 private:
  bool read_record();
  void split(std::string_view line);
  void split_quoted(std::string_view line);
  std::string_view quoted_field(std::string_view& rest);

  LineReader lines_;
  char delimiter_;
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;
  std::vector<std::size_t> columns_;  // where each field begins in its line, from 1
  std::uint64_t line_ = 0;            // where the record begins
  std::string joined_;                // a record of several lines
  std::string unquoted_;              // fields that held doubled quotes
};

/// Whole texts as numbers: digits alone ("-" where negative ones may be); nullopt for anything else.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
std::optional<std::int64_t> parse_signed(std::string_view text);
/// A finite decimal number.
std::optional<double> parse_number(std::string_view text);

/// A text from an input, for a message: quoted, cut where long, unprintable bytes as '?'.
std::string shown(std::string_view text);

}  // namespace moelab
