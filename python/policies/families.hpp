// Entries of the families' tables for policies that are Python classes. `type` outlives the entry.
#pragma once

#include "policies/batching/batching.hpp"
#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/placement/placement.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/pressure/pressure.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "policies/storage/storage.hpp"
#include "python/policies/python_policy.hpp"

namespace moelab {

BatchingPolicyEntry batching_entry(const PythonPolicy& type);
CachePolicyEntry cache_entry(const PythonPolicy& type);
ExecutionPolicyEntry execution_entry(const PythonPolicy& type);
PlacementPolicyEntry placement_entry(const PythonPolicy& type);
PlanningPolicyEntry planning_entry(const PythonPolicy& type);
PrefetchPolicyEntry prefetch_entry(const PythonPolicy& type);
PressurePolicyEntry pressure_entry(const PythonPolicy& type);
ResidencyPolicyEntry residency_entry(const PythonPolicy& type);
RoutingPolicyEntry routing_entry(const PythonPolicy& type);
SchedulePolicyEntry schedule_entry(const PythonPolicy& type);
StoragePolicyEntry storage_entry(const PythonPolicy& type);

}  // namespace moelab
