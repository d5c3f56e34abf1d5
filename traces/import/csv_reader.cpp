#include "traces/import/csv_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kLongestShown = 40;

template <typename T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse<std::uint64_t>(text);
}
std::optional<std::int64_t> parse_signed(std::string_view text) {
  return parse<std::int64_t>(text);
}
std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string shown(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, kLongestShown)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return result + (text.size() > kLongestShown ? "...'" : "'");
}

CsvReader::CsvReader(const std::filesystem::path& path, Progress progress, char delimiter)
    : lines_(path, std::move(progress)), delimiter_(delimiter) {
  if (!read_record()) throw InputError(name(), "is empty; the first line should name the columns");
  header_.assign(fields_.begin(), fields_.end());
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (!names.insert(header_[i]).second) fail(i, "a second column named " + shown(header_[i]));
  }
}

std::size_t CsvReader::column(const std::string& name) const {
  const auto at = std::find(header_.begin(), header_.end(), name);
  if (at == header_.end())
    fail_at_line(this->name(), 1, 0, "has no column " + shown(name) + suggestion(name, header_));
  return static_cast<std::size_t>(at - header_.begin());
}

bool CsvReader::next() {
  if (!read_record()) return false;
  if (fields_.size() != header_.size())
    lines_.fail(0, "has " + std::to_string(fields_.size()) + " fields; the header names " +
                       std::to_string(header_.size()));
  return true;
}

bool CsvReader::read_record() {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (line.empty());
  line_ = lines_.number();
  fields_.clear();
  columns_.clear();
  if (std::memchr(line.data(), '"', line.size()) == nullptr) {
    split(line);
  } else {
    split_quoted(line);
  }
  return true;
}

void CsvReader::split(std::string_view line) {
  const char* begin = line.data();
  const char* const end = begin + line.size();
  while (true) {
    const void* const found = std::memchr(begin, delimiter_, static_cast<std::size_t>(end - begin));
    const char* const stop = found != nullptr ? static_cast<const char*>(found) : end;
    columns_.push_back(static_cast<std::size_t>(begin - line.data()) + 1);
    fields_.emplace_back(begin, static_cast<std::size_t>(stop - begin));
    if (found == nullptr) return;
    begin = stop + 1;
  }
}

// Takes a quoted field and what follows its quote from the front of `rest`; views into joined_, or into
// unquoted_ where quotes were doubled.
std::string_view CsvReader::quoted_field(std::string_view& rest) {
  std::size_t at = 1;
  std::size_t doubled = 0;
  for (;; ++at) {
    at = rest.find('"', at);
    if (at + 1 >= rest.size() || rest[at + 1] != '"') break;
    ++at;
    ++doubled;
  }
  std::string_view inside = rest.substr(1, at - 1);
  rest.remove_prefix(at + 1);
  if (doubled == 0) return inside;
  const std::size_t begin = unquoted_.size();  // within the capacity reserved: views stay valid
  for (std::size_t i = 0; i < inside.size(); ++i) {
    unquoted_ += inside[i];
    if (inside[i] == '"') ++i;
  }
  return std::string_view(unquoted_).substr(begin);
}

void CsvReader::split_quoted(std::string_view line) {
  joined_ = line;
  // Every quote opens, closes or is half of a pair: an odd number means that the record goes on.
  std::ptrdiff_t quotes = std::count(line.begin(), line.end(), '"');
  while (quotes % 2 != 0) {
    if (!lines_.next(line) || joined_.size() + line.size() > kLongestLine)
      fail_at_line(name(), line_, 0, "a quoted field that begins here is never closed");
    joined_ += '\n';
    joined_ += line;
    quotes += std::count(line.begin(), line.end(), '"');
  }
  unquoted_.clear();
  unquoted_.reserve(joined_.size());
  std::string_view rest = joined_;
  while (true) {
    columns_.push_back(static_cast<std::size_t>(rest.data() - joined_.data()) + 1);
    if (rest.starts_with('"')) {
      fields_.push_back(quoted_field(rest));
    } else {
      fields_.push_back(rest.substr(0, std::min(rest.find(delimiter_), rest.size())));
      rest.remove_prefix(fields_.back().size());
      if (fields_.back().find('"') != std::string_view::npos)
        fail(fields_.size() - 1, "a quote within a field that does not begin with one");
    }
    if (rest.empty()) return;
    if (rest.front() != delimiter_) fail(fields_.size() - 1, "more text after the closing quote of a field");
    rest.remove_prefix(1);
  }
}

void CsvReader::fail(std::size_t column, const std::string& what) const {
  fail_at_line(name(), line_, column < columns_.size() ? columns_[column] : 0, what);
}

std::uint64_t CsvReader::unsigned_at(std::size_t column, const char* what) const {
  const std::optional<std::uint64_t> value = parse_unsigned(field(column));
  if (!value) fail(column, std::string("expected ") + what + ", found " + shown(field(column)));
  return *value;
}

std::int64_t CsvReader::signed_at(std::size_t column, const char* what) const {
  const std::optional<std::int64_t> value = parse_signed(field(column));
  if (!value) fail(column, std::string("expected ") + what + ", found " + shown(field(column)));
  return *value;
}

double CsvReader::number_at(std::size_t column, const char* what) const {
  const std::optional<double> value = parse_number(field(column));
  if (!value) fail(column, std::string("expected ") + what + ", found " + shown(field(column)));
  return *value;
}

}  // namespace moelab
