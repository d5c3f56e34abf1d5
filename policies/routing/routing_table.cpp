// The routing family's one table.
#include "policies/routing/routing.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define ROUTING_POLICIES(row) \
  row(model_routing_entry) \
  row(smoe_routing_entry)
// clang-format on

#define DECLARE(entry) RoutingPolicyEntry entry();
ROUTING_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<RoutingPolicyEntry>& routing_policies() {
#define CALL(entry) entry(),
  static PolicyTable<RoutingPolicyEntry> table = {ROUTING_POLICIES(CALL)};
#undef CALL
  return table;
}

const RoutingPolicyEntry* find_routing_policy(std::string_view name) {
  return routing_policies().find(name);
}

}  // namespace moelab
