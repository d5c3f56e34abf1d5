// Names of layers in a configuration: which entry of a list fits a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/name_pattern.hpp"

namespace moelab {

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
