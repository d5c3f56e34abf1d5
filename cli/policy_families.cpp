#include "cli/policy_families.hpp"

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

namespace moelab::cli {

std::vector<PolicyFamily> policy_families() {
  std::vector<PolicyFamily> families;
  const auto add = [&](const char* name, const auto& table) {
    families.push_back({name, {}});
    for (const auto& entry : table) families.back().policies.push_back(entry.info);
  };
  add("routing", routing_policies());
  add("schedule", schedule_policies());
  add("cache", cache_policies());
  add("planning", planning_policies());
  add("prefetch", prefetch_policies());
  add("execution", execution_policies());
  add("batching", batching_policies());
  add("pressure", pressure_policies());
  add("storage", storage_policies());
  add("residency", residency_policies());
  add("placement", placement_policies());
  return families;
}

}  // namespace moelab::cli
