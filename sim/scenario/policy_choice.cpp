#include "sim/scenario/policy_choice.hpp"

#include <algorithm>

#include "policies/policy_families.hpp"

namespace moelab {

std::vector<std::string> policy_origins_of(const SystemConfig& system, std::string_view without) {
  std::vector<std::string> origins;
  const auto note = [&](std::string_view family, const auto& table, const PolicyChoice& choice) {
    if (family == without) return;
    const auto* const entry = table.find(choice.name);
    if (entry == nullptr || entry->info.library.empty()) return;
    const std::string origin(entry->info.library);
    if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
  };
  note("schedule", schedule_policies(), system.schedule);
  note("cache", cache_policies(), system.cache);
  note("planning", planning_policies(), system.planning);
  note("prefetch", prefetch_policies(), system.prefetch);
  note("routing", routing_policies(), system.routing);
  note("execution", execution_policies(), system.execution);
  if (system.batching) note("batching", batching_policies(), system.batching->policy);
  note("pressure", pressure_policies(), system.kv.pressure);
  if (system.paging) {
    note("storage", storage_policies(), system.paging->storage);
    note("residency", residency_policies(), system.paging->residency);
  }
  if (system.placed) note("placement", placement_policies(), system.placed->placement);
  return origins;
}

bool is_library_file(std::string_view origin) {
  return origin.starts_with('/');
}

}  // namespace moelab
