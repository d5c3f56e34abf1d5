// Texts and tables that fit the terminal: what is too long goes on in the next line, between words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moelab::cli {

/// Characters of a line on standard output: what the environment's COLUMNS says, else the terminal's width; 0
/// where it is no terminal.
std::size_t line_width();
/// The same, and 100 where it is no terminal.
std::size_t output_width();

/// `head`, and `text` from column `indent` on (behind a longer head: a blank further) in as many lines as it
/// takes, with a line's end. A word that is longer than a line stands alone; at least 24 columns are used
/// behind the indentation.
std::string hanging(const std::string& head, const std::string& text, std::size_t indent, std::size_t width);

/// Columns to the left, two spaces apart, of which the last one is wrapped. Every row has as many cells as
/// the first, which are the columns' names.
std::string wrapped_table(const std::vector<std::vector<std::string>>& rows, std::size_t width);

}  // namespace moelab::cli
