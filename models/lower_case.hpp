// Names that people write in capitals or not.
#pragma once

#include <string>

namespace moelab {

/// A to Z as a to z, whatever the locale; other bytes as they are.
inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace moelab
