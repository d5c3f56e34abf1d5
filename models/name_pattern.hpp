// Patterns of dotted names, as configurations of quantised models have them, matched in time linear in the
// name whatever the pattern: files come from anywhere, and a backtracking matcher can be made to run for
// ever.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// A list of names and patterns of a file. Which entry fits a name, and which ever did.
class NameList {
 public:
  enum class Rule : std::uint8_t {
    exact,  // compressed-tensors: the whole name, or behind "re:" an expression
    part    // ModelOpt, bitsandbytes: any run of the name's words between dots, or with '*', '?', '[' a
            // wildcard
  };
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

  /// Throws InputError, which names the entry, for a pattern that is none.
  NameList(Rule rule, std::vector<std::string> entries);
  /// The index of the first plain entry, else of the first pattern that fits; npos: none.
  std::size_t find(std::string_view name) const;
  const std::vector<std::string>& entries() const { return entries_; }
  /// Whether find() returned the entry so far.
  bool used(std::size_t entry) const { return used_[entry]; }
  /// Steps that all calls of find() together may have taken.
  std::size_t work() const { return work_; }
  /// Whether some entry may tell one numbered expert from another.
  bool tells_experts_apart() const;

 private:
  std::size_t find_plain(std::string_view name) const;

  Rule rule_;
  std::vector<std::string> entries_;
  std::unordered_map<std::string, std::size_t> plain_;
  std::vector<std::pair<std::size_t, NamePattern>> patterns_;
  mutable std::vector<bool> used_;
  mutable std::size_t work_ = 0;
};

}  // namespace moelab
