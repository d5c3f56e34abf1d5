#include "policies/policy_families.hpp"

#include <algorithm>

namespace moelab {

std::vector<PolicyFamily> policy_families() {
  std::vector<PolicyFamily> families;
  for_each_policy_family([&](const char* name, const auto& table) {
    families.push_back({name, {}});
    for (const auto& entry : table) families.back().policies.push_back(entry.info);
  });
  return families;
}

bool is_policy_name(std::string_view name) {
  constexpr std::size_t kLongest = 64;  // of a column of a table that people read
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto good = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= kLongest && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), good);
}

}  // namespace moelab
