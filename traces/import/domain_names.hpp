// The kinds of prompts that an input names, numbered in order of appearance. Private to the importers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

class DomainNames {
 public:
  static constexpr std::string_view kTooMany = "more than 65535 different domains";

  /// False where there are too many already.
  bool add(std::string_view name) {
    if (numbers_.find(name) != numbers_.end()) return true;
    if (names_.size() == 65535) return false;
    numbers_.emplace(name, static_cast<std::uint16_t>(names_.size()));
    names_.emplace_back(name);
    return true;
  }
  /// Of a name that was added.
  std::uint16_t number_of(std::string_view name) const { return numbers_.find(name)->second; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, std::uint16_t, std::less<>> numbers_;
  std::vector<std::string> names_;
};

}  // namespace moelab
