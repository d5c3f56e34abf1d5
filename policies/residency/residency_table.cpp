// The residency family's one table.
#include "policies/residency/residency.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define RESIDENCY_POLICIES(row) \
  row(fixed_residency_entry) \
  row(budget_aware_entry)
// clang-format on

#define DECLARE(entry) ResidencyPolicyEntry entry();
RESIDENCY_POLICIES(DECLARE)
#undef DECLARE

const std::vector<ResidencyPolicyEntry>& residency_policies() {
#define CALL(entry) entry(),
  static const std::vector<ResidencyPolicyEntry> table = {RESIDENCY_POLICIES(CALL)};
#undef CALL
  return table;
}

const ResidencyPolicyEntry* find_residency_policy(std::string_view name) {
  for (const ResidencyPolicyEntry& entry : residency_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

}  // namespace moelab
