// The rows of the schedule table: each policy's file defines its own row, schedule_table.cpp collects them.
#pragma once

#include "policies/schedule/schedule.hpp"

namespace moelab {

SchedulePolicyEntry fifo_schedule_entry();
SchedulePolicyEntry longest_first_entry();
SchedulePolicyEntry cache_affinity_entry();
SchedulePolicyEntry exhaustive_entry();

/// Appends the reads of one task of `expert`, its E-chunks before its SM-chunk: a task by itself is done
/// soonest this way, because the SM read hides behind the decompressions.
void append_task_reads(const LayerInstance& instance, const LayerExpert& expert, std::uint32_t task,
                       LayerOrder& order);

}  // namespace moelab
