#include "sim/results/text_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace moelab {

std::string fixed(double value, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

std::string three_digits(double value, int least) {
  constexpr int kCount = 3, kMost = 12;
  if (value == 0 || !std::isfinite(value)) return fixed(value, least);
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return fixed(value, std::clamp(kCount - before_point, least, kMost));
}

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 1) : "-";
}

const char* column(std::size_t eighths) {
  static constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return kHeights[eighths];
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

namespace {

std::string wrapped_line(const std::string& line, std::size_t width) {
  if (character_count(line) <= width) return line + "\n";
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string indent(begin + 2, ' ');
  std::string out, current = line.substr(0, begin);
  bool empty = true;
  std::istringstream words(line);
  for (std::string word; words >> word; empty = false) {
    if (!empty && character_count(current) + 1 + character_count(word) > width) {
      out += current + "\n";
      current = indent;
      empty = true;
    }
    current += (empty ? "" : " ") + word;
  }
  return out + current + "\n";
}

}  // namespace

std::string wrapped_lines(const std::string& lines, std::size_t width) {
  if (width == 0) return lines;
  std::istringstream in(lines);
  std::string out;
  for (std::string line; std::getline(in, line);) out += wrapped_line(line, width);
  return out;
}

double significant_digits(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

namespace {

using Columns = std::vector<std::size_t>;

/// "p99", "±": a heading that says which figure of the column to its left, or of one further left, it is.
bool goes_on(const std::string& heading) {
  if (heading == "±") return true;
  return heading.size() > 1 && heading.front() == 'p' &&
         std::all_of(heading.begin() + 1, heading.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

/// What a column is called where those to its left are not seen: "TTFT s p99" of "p99" behind "TTFT s p50",
/// "ttft p95 ±" of "±" behind "ttft p95".
std::string full_heading(const std::vector<std::string>& headings, std::size_t column) {
  const std::string& heading = headings[column];
  std::size_t head = column;
  while (head > 0 && goes_on(headings[head])) --head;
  if (head == column || headings[head].empty()) return heading;
  const std::string& group = headings[head];
  const std::size_t word = group.rfind(' ');
  const bool same_kind = heading != "±" && word != group.npos && goes_on(group.substr(word + 1));
  if (same_kind) return group.substr(0, word) + " " + heading;
  return heading == "±" ? group + " ±" : heading;
}

std::string aligned(std::vector<std::vector<std::string>> rows, const Columns& shown, const Columns& widths,
                    std::size_t left, std::size_t first) {
  std::string out;
  if (first < rows.front().size()) rows.front()[first] = full_heading(rows.front(), first);
  for (const auto& row : rows) {
    std::string line;
    for (const std::size_t c : shown) {
      if (c >= row.size()) break;
      const std::string pad(widths[c] - character_count(row[c]), ' ');
      line += (c == shown.front() ? "" : "  ") + (c < left ? row[c] + pad : pad + row[c]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string align_columns(const std::vector<std::vector<std::string>>& rows, std::size_t left,
                          std::size_t width) {
  const std::size_t count = rows.front().size();
  Columns widths(count, 0), names;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < std::min(count, row.size()); ++c)
      widths[c] = std::max(widths[c], character_count(row[c]));
  std::size_t names_width = 0;
  for (std::size_t c = 0; c < std::max<std::size_t>(left, 1) && c < count; ++c) {
    if (c > 0 && names_width + widths[c] > width / 2) break;
    names.push_back(c);
    names_width += widths[c] + 2;
  }
  std::string out;
  Columns shown = names;
  std::size_t taken = names_width, first = count;  // the first column that goes on from above; count: none
  for (std::size_t c = names.size(); c < count; ++c) {
    if (width > 0 && shown.size() > names.size() && taken + widths[c] > width) {
      out += aligned(rows, shown, widths, left, first) + "\n";
      shown = names;
      taken = names_width;
      first = c;
      widths[c] = std::max(widths[c], character_count(full_heading(rows.front(), c)));
    }
    shown.push_back(c);
    taken += widths[c] + 2;
  }
  return out + aligned(rows, shown, widths, left, first);
}

}  // namespace moelab
