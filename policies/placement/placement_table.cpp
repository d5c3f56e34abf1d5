// The placement family's one table.
#include "policies/placement/placement.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define PLACEMENT_POLICIES(row) \
  row(prism_entry) \
  row(uniform_placement_entry) \
  row(redundance_entry) \
  row(smartmoe_entry) \
  row(eplb_entry) \
  row(random_placement_entry) \
  row(optimal_placement_entry)
// clang-format on

#define DECLARE(entry) PlacementPolicyEntry entry();
PLACEMENT_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<PlacementPolicyEntry>& placement_policies() {
#define CALL(entry) entry(),
  static PolicyTable<PlacementPolicyEntry> table = {PLACEMENT_POLICIES(CALL)};
#undef CALL
  return table;
}

const PlacementPolicyEntry* find_placement_policy(std::string_view name) {
  return placement_policies().find(name);
}

}  // namespace moelab
