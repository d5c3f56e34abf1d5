// What a pressure policy is asked: how much memory so many requests take, and what their steps cost.
#pragma once

#include <vector>

#include "models/units.hpp"
#include "policies/pressure/pressure.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {

struct ExpertCosts;
struct MemoryPlan;
struct Scenario;
struct SystemConfig;

/// The KV cache that the system's pressure policy wants: of the longest requests at their ends, in whole
/// blocks, of as many as it says. `memory` has the block (plan_kv_block) and, where there are `costs`, all
/// that experts and KV cache have to leave room for; without costs (experts are paged) the policy is one that
/// needs none.
Bytes planned_kv_bytes(const Scenario& scenario, const SystemConfig& system, const MemoryPlan& memory,
                       const std::vector<ServedRequest>& requests, const ExpertCosts* costs = nullptr);

}  // namespace moelab
