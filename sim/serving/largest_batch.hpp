// What the requests that run at once hold at most, beside weights: keys, values and states, and rows of a
// step.
#pragma once

#include <cstdint>

#include "models/units.hpp"

namespace moelab {

class RoutingTrace;
struct Scenario;
struct SystemConfig;

struct LargestBatch {
  /// Keys, values and states of static batches: of the batch that has most of them when its requests are
  /// done.
  Bytes kv_cache;
  std::uint64_t rows = 0;  // of the step that has most
};

/// Of a trace's batches in turn the largest; where requests come when they will, what the `workload.batch`
/// longest of them would come to together. Rows of a step are those of all the batch's prompts, of a
/// micro-batch where the runtime has such, of batching.max_tokens; a request that gave way may run all that
/// it has once more.
LargestBatch largest_batch(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

}  // namespace moelab
