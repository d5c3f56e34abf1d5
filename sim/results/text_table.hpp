// Tables for people: rows of text, columns as wide as their widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// Characters of a text in UTF-8: all its bytes but those that continue one.
std::size_t character_count(std::string_view text);

/// Each line that is longer than `width` characters (0: any number) in as many as it takes, broken between
/// words; what goes on stands two columns further in than the line begins. A word that is longer than a line
/// stands alone.
std::string wrapped_lines(const std::string& lines, std::size_t width);

/// Rounded to so many digits that count; 0 and what is not finite as they are.
double significant_digits(double value, int digits);

/// With so many digits after the point.
std::string fixed(double value, int digits);

/// With at least so many digits after the point, and with more where fewer than three that count would be
/// seen: 117.1, 8.30 and 0.0721 for 117.12, 8.301 and 0.07214 with one.
std::string three_digits(double value, int least);

/// A share in percent, with one digit after the point; "-" of nothing.
std::string percent(double part, double whole);
/// A column of 0 to 8 eighths of a line's height: a blank to a full block.
const char* column(std::size_t eighths);

/// The first row heads it, and every row has as many cells; the first `left` columns stand to the left.
struct TextTable {
  std::vector<std::vector<std::string>> rows;
  std::size_t left = 1;
};

/// Two spaces between columns: the first `left` stand to the left, the others to the right. At least one
/// row; every row has as many cells as the first. A table that is wider than `width` characters (0: any
/// number) goes on below, with as many columns each time as have room, at least one, behind its first column
/// again and those of the `left` that have room beside it in half of the width. There the first column that
/// goes on is called by its whole name: "TTFT s p99" where "p99" stood behind "TTFT s p50".
std::string align_columns(const std::vector<std::vector<std::string>>& rows, std::size_t left,
                          std::size_t width = 0);

}  // namespace moelab
