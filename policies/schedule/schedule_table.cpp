#include "policies/schedule/layer_needs.hpp"
#include "policies/schedule/schedule_entries.hpp"

namespace moelab {

const std::vector<SchedulePolicyEntry>& schedule_policies() {
  static const std::vector<SchedulePolicyEntry> table = {fifo_schedule_entry(), longest_first_entry(),
                                                         cache_affinity_entry(), exhaustive_entry()};
  return table;
}

std::unique_ptr<SchedulePolicy> make_schedule_policy(std::string_view name,
                                                     const PolicyParameters& parameters) {
  for (const SchedulePolicyEntry& entry : schedule_policies())
    if (entry.info.name == name) return entry.make(parameters);
  return nullptr;
}

void append_task_reads(const LayerInstance& instance, const LayerExpert& expert, std::uint32_t task,
                       LayerOrder& order) {
  for (std::uint32_t chunk = 0; chunk < e_reads(instance, expert); ++chunk)
    order.reads.push_back({task, chunk});
  if (needs_sm_read(expert)) order.reads.push_back({task, kSmChunk});
}

}  // namespace moelab
