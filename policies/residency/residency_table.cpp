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

PolicyTable<ResidencyPolicyEntry>& residency_policies() {
#define CALL(entry) entry(),
  static PolicyTable<ResidencyPolicyEntry> table = {RESIDENCY_POLICIES(CALL)};
#undef CALL
  return table;
}

const ResidencyPolicyEntry* find_residency_policy(std::string_view name) {
  return residency_policies().find(name);
}

}  // namespace moelab
