// Patterns of dotted names, as configurations of quantised models have them, matched in time linear in the
// name whatever the pattern: files come from anywhere, and a backtracking matcher can be made to run for
// ever.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// One compiled pattern.
class NamePattern {
 public:
  /// A regular expression that has to fit from a name's beginning, not up to its end (Python's re.match):
  /// literals, '.', sets, \d \w \s and escaped signs, groups, '|', '*', '+', '?', '^' and '$'. Throws
  /// InputError without a file for what is none, and for look-arounds, back references and counts in braces.
  static NamePattern expression(std::string_view text);
  /// A wildcard pattern that fits the whole name (Python's fnmatch): '*', '?' and sets.
  static NamePattern wildcard(std::string_view text);

  bool fits(std::string_view name) const;
  /// An upper bound of what fits() does, in steps.
  std::size_t work(std::string_view name) const;

  struct Step {
    enum class Kind : std::uint8_t { sign, fork, jump, begin, end };
    Kind kind = Kind::sign;
    std::bitset<256> signs = {};  // sign: those that fit
    int first = 1;                // fork, jump: where to go on, counted from here
    int second = 1;               // fork
  };
  using Code = std::vector<Step>;  // fits where its end is reached

 private:
  NamePattern(Code code, bool whole);
  Code code_;
  std::string start_;   // signs that each name that fits begins with
  bool whole_ = false;  // the name's end has to be reached too
};

}  // namespace moelab
