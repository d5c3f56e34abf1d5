#include "sim/results/text_report.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

namespace moelab {
namespace {

using Cells = std::vector<std::string>;

/// As CommonMark shows it again: nothing in a text is markup.
std::string escaped_markdown(const std::string& text) {
  static const std::string kMarkup = "\\`*_{}[]<>#|~&!";
  std::string out;
  for (const char c : text) {
    if (kMarkup.find(c) != std::string::npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// A line that is not the last ends in a hard break; blanks at its begin are not shown.
std::string markdown_lines(const std::string& lines) {
  std::istringstream in(lines);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    out += (out.empty() ? "" : "\\\n") + escaped_markdown(line.substr(begin));
  }
  return out + "\n";
}

std::string markdown_row(const Cells& row) {
  std::string line = "|";
  for (const std::string& cell : row) line += " " + escaped_markdown(cell) + " |";
  return line + "\n";
}

std::string markdown_table(const TextTable& table) {
  std::string out = markdown_row(table.rows.front()) + "|";
  for (std::size_t c = 0; c < table.rows.front().size(); ++c) out += c < table.left ? " :-- |" : " --: |";
  out += "\n";
  for (std::size_t r = 1; r < table.rows.size(); ++r) out += markdown_row(table.rows[r]);
  return out;
}

/// Between fences that are longer than any run of their character in it.
std::string markdown_picture(const std::string& lines) {
  std::size_t longest = 2, run = 0;
  for (const char c : lines) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(longest + 1, '`');
  return fence + "text\n" + lines + fence + "\n";
}

bool is_empty_column(const TextTable& table, std::size_t column) {
  return std::all_of(table.rows.begin() + 1, table.rows.end(),
                     [column](const Cells& row) { return row[column].empty() || row[column] == "-"; });
}

/// Behind the left ones.
void drop_empty_columns(TextTable& table) {
  for (std::size_t c = table.rows.front().size(); c > table.left; --c)
    if (is_empty_column(table, c - 1))
      for (Cells& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c - 1));
}

}  // namespace

TextReport::TextReport(TextForm form, std::vector<std::string> marked)
    : form_(form), marked_(std::move(marked)) {}

void TextReport::add_lines(const std::string& lines) {
  add(lines.empty() || !form_.markdown ? wrapped_lines(lines, form_.width) : markdown_lines(lines));
}

void TextReport::add_table(TextTable table) {
  if (table.rows.size() > 1) drop_empty_columns(table);
  if (table.rows.size() < 2 || table.rows.front().size() < 2) return add("");
  for (std::size_t r = 1; r < table.rows.size(); ++r)
    if (std::find(marked_.begin(), marked_.end(), table.rows[r].front()) != marked_.end())
      table.rows[r].front() += "*";
  add(form_.markdown ? markdown_table(table) : align_columns(table.rows, table.left, form_.width));
}

void TextReport::add_picture(const std::string& lines) {
  add(lines.empty() || !form_.markdown ? lines : markdown_picture(lines));
}

void TextReport::join_next() {
  joins_ = true;
}

void TextReport::add(const std::string& block) {
  const bool joins = std::exchange(joins_, false) && !form_.markdown;
  if (block.empty()) return;
  if (!text_.empty() && !joins) text_ += "\n";
  text_ += block;
}

}  // namespace moelab
