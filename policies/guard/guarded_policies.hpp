// Policies as the simulator uses them. Those of moelab are tested, and are made and called as they are. What
// comes from a library (PolicyInfo::library) is not known: each of its answers is checked, so that a mistake
// is an error with a name and not a wrong figure. What the caller hands over is taken to be right.
//
// All throw PolicyError (policy_error.hpp) where a policy from a library breaks a rule of its family, throws,
// or makes no policy. An InputError passes where the family lets a policy refuse what it is given: when it is
// made, and from split, place, plan, requests, adjust, order and gate_ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

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

namespace moelab {

struct GuardOptions {
  /// Policies of moelab are guarded too: for checks of policies, not for runs.
  bool closely = false;
  /// Which layer the policy decides for, where that is one: said where a rule is broken.
  std::optional<std::uint32_t> layer = {};
};

std::unique_ptr<CachePolicy> make_cache_policy(const CachePolicyEntry& entry, const CacheShape& shape,
                                               const PolicyParameters& parameters,
                                               const GuardOptions& options = {});
std::unique_ptr<PrefetchPolicy> make_prefetch_policy(const PrefetchPolicyEntry& entry,
                                                     const PrefetchShape& shape,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options = {});
std::unique_ptr<SchedulePolicy> make_schedule_policy(const SchedulePolicyEntry& entry,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options = {});
std::unique_ptr<RoutingPolicy> make_routing_policy(const RoutingPolicyEntry& entry,
                                                   const PolicyParameters& parameters,
                                                   const GuardOptions& options = {});
std::unique_ptr<ExecutionPolicy> make_execution_policy(const ExecutionPolicyEntry& entry,
                                                       const PolicyParameters& parameters,
                                                       const GuardOptions& options = {});
std::unique_ptr<BatchingPolicy> make_batching_policy(const BatchingPolicyEntry& entry,
                                                     const BatchingShape& shape,
                                                     const PolicyParameters& parameters,
                                                     const GuardOptions& options = {});
std::unique_ptr<ResidencyPolicy> make_residency_policy(const ResidencyPolicyEntry& entry,
                                                       const PolicyParameters& parameters,
                                                       const GuardOptions& options = {});

StorageSplit split_storage(const StoragePolicyEntry& entry, const StorageShape& shape,
                           const PolicyParameters& parameters, const GuardOptions& options = {});
Placement place_experts(const PlacementPolicyEntry& entry, const PlacementShape& shape,
                        const ActivationCounts& counts, const PolicyParameters& parameters,
                        const GuardOptions& options = {});
/// `input`: checked by check_plan_input beforehand.
Plan plan_pools(const PlanningPolicyEntry& entry, const PlanInput& input, const GuardOptions& options = {});
std::size_t requests_under_pressure(const PressurePolicyEntry& entry, const PressureTerms& terms,
                                    const PolicyParameters& parameters, const GuardOptions& options = {});

}  // namespace moelab
