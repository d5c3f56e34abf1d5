// What is wrong, as the program says it: once, however many systems or files it is of.
#pragma once

#include <string>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {

/// A line for each, but one for those that say the same of several systems or files, which it names.
std::vector<std::string> problem_lines(const std::vector<Problem>& problems);

}  // namespace moelab
