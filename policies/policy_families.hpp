// The families of policies, for what goes over all of them.
#pragma once

#include <string>
#include <vector>

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

/// Calls use("routing", routing_policies()) and so on, in the order in which users see the families.
template <class Use>
void for_each_policy_family(const Use& use) {
  use("routing", routing_policies());
  use("schedule", schedule_policies());
  use("cache", cache_policies());
  use("planning", planning_policies());
  use("prefetch", prefetch_policies());
  use("execution", execution_policies());
  use("batching", batching_policies());
  use("pressure", pressure_policies());
  use("storage", storage_policies());
  use("residency", residency_policies());
  use("placement", placement_policies());
}

struct PolicyFamily {
  std::string name;  // "cache"
  std::vector<PolicyInfo> policies;
};

/// As their tables have them now, policies of libraries included.
std::vector<PolicyFamily> policy_families();

/// Whether it is a name for a policy or a parameter: small letters, digits, - and _, a letter first, 64 at
/// most.
bool is_policy_name(std::string_view name);

}  // namespace moelab
