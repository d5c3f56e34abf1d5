// Command lines that a person may copy.
#pragma once

#include <string>

namespace moelab {

/// As a shell takes it for one word: in quotes where it needs them.
std::string shell_word(const std::string& text);

}  // namespace moelab
