#include "models/name_list.hpp"

#include <algorithm>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kMostOfPatterns = 262144;  // characters of all patterns of a list

}  // namespace

NameList::NameList(Rule rule, std::vector<std::string> entries)
    : rule_(rule), entries_(std::move(entries)), used_(entries_.size(), false) {
  std::size_t of_patterns = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view entry = entries_[i];
    const bool patterned =
        rule == Rule::exact ? entry.starts_with("re:") : entry.find_first_of("*?[") != std::string_view::npos;
    if (!patterned) {
      plain_.emplace(entry, i);
      continue;
    }
    of_patterns += entry.size();
    if (of_patterns > kMostOfPatterns)
      throw InputError("", "has patterns of more than " + std::to_string(kMostOfPatterns) + " characters");
    try {
      patterns_.emplace_back(
          i, rule == Rule::exact ? NamePattern::expression(entry.substr(3)) : NamePattern::wildcard(entry));
    } catch (const InputError& error) {
      throw InputError("", "entry " + std::to_string(i) + " " + error.problems().front().what);
    }
  }
}

std::size_t NameList::find_plain(std::string_view name) const {
  if (plain_.empty()) return npos;
  if (rule_ == Rule::exact) {
    const auto found = plain_.find(std::string(name));
    return found == plain_.end() ? npos : found->second;
  }
  for (std::size_t begin = 0; begin < name.size();) {
    for (std::size_t end = name.find('.', begin);; end = name.find('.', end + 1)) {
      const auto found = plain_.find(std::string(name.substr(begin, end - begin)));
      if (found != plain_.end()) return found->second;
      if (end == std::string_view::npos) break;
    }
    const std::size_t dot = name.find('.', begin);
    begin = dot == std::string_view::npos ? name.size() : dot + 1;
  }
  return npos;
}

std::size_t NameList::find(std::string_view name) const {
  if (!plain_.empty())
    work_ += (rule_ == Rule::exact ? 1 : 2) * name.size();  // a part is looked up by its runs
  std::size_t found = find_plain(name);
  for (std::size_t i = 0; found == npos && i < patterns_.size(); ++i) {
    work_ += patterns_[i].second.work(name);
    if (patterns_[i].second.fits(name)) found = patterns_[i].first;
  }
  if (found != npos) used_[found] = true;
  return found;
}

bool NameList::tells_experts_apart() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const std::string& entry) {
    const std::size_t at = entry.rfind("experts");
    if (at == std::string::npos) return false;
    const std::size_t behind = entry.find_first_not_of("\\.", at + 7);
    if (behind == std::string::npos || behind == at + 7) return false;
    const char c = entry[behind];
    return (c >= '0' && c <= '9') || c == '[' || c == '(';
  });
}

}  // namespace moelab
