// Names one after the other, as messages and sentences have them.
#pragma once

#include <string>
#include <vector>

namespace moelab::cli {

/// "a, b, c"
std::string between_commas(const std::vector<std::string>& names);
/// "a", "a and b", "a, b and c"
std::string joined_by_and(const std::vector<std::string>& names);

}  // namespace moelab::cli
