#include "cli/wrapped_text.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "sim/results/text_table.hpp"

namespace moelab::cli {
namespace {

constexpr std::size_t kNoTerminal = 100, kLeastText = 24, kGap = 2;

/// Of `width` characters, but for `taken` in the first line.
std::vector<std::string> lines_of(const std::string& text, std::size_t width, std::size_t taken) {
  std::vector<std::string> lines(1);
  std::size_t length = taken;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const bool first = lines.back().empty();
    if (!first && length + 1 + character_count(word) > width) {
      lines.push_back(word);
      length = character_count(word);
    } else {
      lines.back() += (first ? "" : " ") + word;
      length += (first ? 0 : 1) + character_count(word);
    }
  }
  return lines;
}

}  // namespace

std::size_t line_width() {
  if (const char* const said = std::getenv("COLUMNS")) {
    const std::string_view text = said;
    std::size_t columns = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (error == std::errc() && rest == text.data() + text.size() && columns > 0) return columns;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 0;
}

std::size_t output_width() {
  const std::size_t width = line_width();
  return width > 0 ? width : kNoTerminal;
}

std::string hanging(const std::string& head, const std::string& text, std::size_t indent, std::size_t width) {
  const std::size_t begin = character_count(head), beyond = begin < indent ? 0 : begin + 1 - indent;
  std::string out = head + std::string(begin < indent ? indent - begin : 1, ' ');
  bool first = true;
  for (const std::string& line : lines_of(text, std::max(width, indent + kLeastText) - indent, beyond)) {
    out += (first ? "" : std::string(indent, ' ')) + line + "\n";
    first = false;
  }
  return out;
}

std::string wrapped_table(const std::vector<std::vector<std::string>>& rows, std::size_t width) {
  const std::size_t last = rows.front().size() - 1;
  std::vector<std::size_t> widths(last, 0);
  std::size_t indent = 0;
  for (std::size_t c = 0; c < last; ++c) {
    for (const auto& row : rows) widths[c] = std::max(widths[c], character_count(row[c]));
    indent += widths[c] + kGap;
  }
  std::string out;
  for (const auto& row : rows) {
    std::string head;
    for (std::size_t c = 0; c < last; ++c)
      head += row[c] + std::string(widths[c] + kGap - character_count(row[c]), ' ');
    out += hanging(head.substr(0, head.find_last_not_of(' ') + 1), row[last], indent, width);
  }
  return out;
}

}  // namespace moelab::cli
