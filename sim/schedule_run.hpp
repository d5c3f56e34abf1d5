// One layer's instance through a schedule policy and the engine: what `moelab schedule` shows.
#pragma once

#include <string>
#include <vector>

#include "models/yaml_reader.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/serving/layer_graph.hpp"

namespace moelab {

/// Reads {"threads", "shards", "sm_read_s", "e_read_s", "decompress_s", "recover_s", "experts": [{"id",
/// "tensors", "state", "execute_s"}]}; times are plain numbers of seconds. Problems go to the document's
/// list.
LayerInstance read_layer_instance(const YamlDocument& document);

struct ScheduledOp {
  OpLabel label;
  std::string resource;
  double start_s = 0, end_s = 0;
};
struct ScheduleRun {
  std::string policy;
  double makespan_s = 0;
  LowerBound bound;
  std::vector<ScheduledOp> operations;  // by start time
};

/// Throws InputError when the policy refuses the instance (too large for exhaustive search).
ScheduleRun run_schedule(const LayerInstance& instance, std::string_view policy);

std::string schedule_json(const ScheduleRun& run);
/// Orders, makespan against the bound, and a Gantt chart in text, `width` columns wide.
std::string schedule_text(const LayerInstance& instance, const ScheduleRun& run, int width = 100);

}  // namespace moelab
