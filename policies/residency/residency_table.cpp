// The residency family's one table.
#include "policies/residency/residency_entries.hpp"

namespace moelab {

const std::vector<ResidencyPolicyEntry>& residency_policies() {
  static const std::vector<ResidencyPolicyEntry> table = {fixed_residency_entry(), budget_aware_entry()};
  return table;
}

const ResidencyPolicyEntry* find_residency_policy(std::string_view name) {
  for (const ResidencyPolicyEntry& entry : residency_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

}  // namespace moelab
