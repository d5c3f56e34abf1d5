// The planning family's one table.
#include "policies/planning/planning.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define PLANNING_POLICIES(row) \
  row(fixed_plan_entry) \
  row(zipmoe_plan_entry)
// clang-format on

#define DECLARE(entry) PlanningPolicyEntry entry();
PLANNING_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<PlanningPolicyEntry>& planning_policies() {
#define CALL(entry) entry(),
  static PolicyTable<PlanningPolicyEntry> table = {PLANNING_POLICIES(CALL)};
#undef CALL
  return table;
}

const PlanningPolicyEntry* find_planning_policy(std::string_view name) {
  return planning_policies().find(name);
}

}  // namespace moelab
