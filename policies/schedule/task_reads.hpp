// What schedule policies share: the reads of one task.
#pragma once

#include "policies/schedule/schedule.hpp"

namespace moelab {

/// Appends the reads of one task of `expert`, its E-chunks before its SM-chunk: a task by itself is done
/// soonest this way, because the SM read hides behind the decompressions.
void append_task_reads(const LayerInstance& instance, const LayerExpert& expert, std::uint32_t task,
                       LayerOrder& order);

}  // namespace moelab
