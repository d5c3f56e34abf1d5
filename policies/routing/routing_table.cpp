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

const std::vector<RoutingPolicyEntry>& routing_policies() {
#define CALL(entry) entry(),
  static const std::vector<RoutingPolicyEntry> table = {ROUTING_POLICIES(CALL)};
#undef CALL
  return table;
}

const RoutingPolicyEntry* find_routing_policy(std::string_view name) {
  for (const RoutingPolicyEntry& entry : routing_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

}  // namespace moelab
