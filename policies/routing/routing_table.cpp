// The routing family's one table.
#include "policies/routing/routing_entries.hpp"

namespace moelab {

const std::vector<RoutingPolicyEntry>& routing_policies() {
  static const std::vector<RoutingPolicyEntry> table = {model_routing_entry(), smoe_routing_entry()};
  return table;
}

const RoutingPolicyEntry* find_routing_policy(std::string_view name) {
  for (const RoutingPolicyEntry& entry : routing_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

}  // namespace moelab
