// Whether a policy keeps the rules of its family: it is played on random instances as the simulator would
// play it, each of its answers checked (policies/guard), each instance twice.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/guard/guarded_policies.hpp"

namespace moelab {

struct CheckOptions {
  std::uint64_t instances = 2000;
  std::uint64_t seed = 1;  // of all that is drawn
  /// Called with the number of each instance, from 0, before it is played.
  std::function<void(std::uint64_t)> begins = {};
};

struct PolicyCheck {
  std::string policy = {}, family = {};
  std::uint64_t instances = 0;  // played, up to the first that broke a rule
  std::uint64_t refused = 0;    // of these: the policy said that it does not take them
  std::string broken = {};      // "" where all rules held; else the instance and the rule
};

/// Instances have the parameters' defaults, their bounds and what lies between; the first one is as small as
/// can be: one layer, one expert, one token, no memory. What an entry says that it needs is there, and what
/// it does not say is not. Beside the family's rules: the same instance gives the same answers again, and
/// not all instances are refused. Every step is looked at whole, of moelab's policies too.
///
/// A policy that crashes or never returns takes the caller with it: see sim/child_process.hpp.
PolicyCheck check_policy(const CachePolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const PrefetchPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const SchedulePolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const RoutingPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const ExecutionPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const BatchingPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const StoragePolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const ResidencyPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const PlacementPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const PlanningPolicyEntry& entry, const CheckOptions& options = {});
PolicyCheck check_policy(const PressurePolicyEntry& entry, const CheckOptions& options = {});

/// Throws InputError where the family, or its policy of that name, is not there.
PolicyCheck check_policy(std::string_view family, std::string_view policy, const CheckOptions& options = {});

}  // namespace moelab
