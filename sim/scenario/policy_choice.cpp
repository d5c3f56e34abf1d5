#include "sim/scenario/policy_choice.hpp"

#include <algorithm>

#include "policies/policy_families.hpp"

namespace moelab {

std::vector<std::string> policy_origins_of(const SystemConfig& system) {
  std::vector<std::string> origins;
  const auto note = [&origins](const auto& table, const PolicyChoice& choice) {
    const auto* const entry = table.find(choice.name);
    if (entry == nullptr || entry->info.library.empty()) return;
    const std::string origin(entry->info.library);
    if (std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
  };
  note(schedule_policies(), system.schedule);
  note(cache_policies(), system.cache);
  note(planning_policies(), system.planning);
  note(prefetch_policies(), system.prefetch);
  note(routing_policies(), system.routing);
  note(execution_policies(), system.execution);
  if (system.batching) note(batching_policies(), system.batching->policy);
  note(pressure_policies(), system.kv.pressure);
  if (system.paging) {
    note(storage_policies(), system.paging->storage);
    note(residency_policies(), system.paging->residency);
  }
  if (system.placed) note(placement_policies(), system.placed->placement);
  return origins;
}

bool is_library_file(std::string_view origin) {
  return origin.starts_with('/');
}

}  // namespace moelab
