#include "policies/schedule/task_reads.hpp"

#include "policies/schedule/layer_needs.hpp"

namespace moelab {

void append_task_reads(const LayerInstance& instance, const LayerExpert& expert, std::uint32_t task,
                       LayerOrder& order) {
  for (std::uint32_t chunk = 0; chunk < e_reads(instance, expert); ++chunk)
    order.reads.push_back({task, chunk});
  if (needs_sm_read(expert)) order.reads.push_back({task, kSmChunk});
}

}  // namespace moelab
