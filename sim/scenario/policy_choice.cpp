#include "sim/scenario/policy_choice.hpp"

#include <algorithm>

#include "policies/policy_families.hpp"

namespace moelab {

std::vector<std::string> policy_libraries_of(const SystemConfig& system) {
  std::vector<std::string> files;
  const auto note = [&files](const auto& table, const PolicyChoice& choice) {
    const auto* const entry = table.find(choice.name);
    if (entry == nullptr || !entry->info.library.starts_with('/')) return;  // moelab's own, or of no file
    const std::string file(entry->info.library);
    if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
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
  return files;
}

}  // namespace moelab
