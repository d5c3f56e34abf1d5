// The entries that routing_table.cpp collects: one function a policy file, which defines it at its end.
#pragma once

#include "policies/routing/routing.hpp"

namespace moelab {

RoutingPolicyEntry model_routing_entry();  // model
RoutingPolicyEntry smoe_routing_entry();   // smoe

}  // namespace moelab
