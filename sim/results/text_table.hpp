// Tables for people: rows of text, columns as wide as their widest cell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moelab {

/// With so many digits after the point.
std::string fixed(double value, int digits);

/// A share in percent, with one digit after the point; "-" of nothing.
std::string percent(double part, double whole);
/// A column of 0 to 8 eighths of a line's height: a blank to a full block.
const char* column(std::size_t eighths);

/// Two spaces between columns: the first `left` stand to the left, the others to the right. At least one
/// row; every row has as many cells as the first.
std::string align_columns(const std::vector<std::vector<std::string>>& rows, std::size_t left);

}  // namespace moelab
