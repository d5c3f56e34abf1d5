// Experts on their way onto the GPU: from the host's memory over the link, or from the SSD before that.
#pragma once

#include "models/timing.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/paged_resources.hpp"

namespace moelab {

struct ExpertLoad {
  Bytes bytes;            // of one GPU, above 0
  bool from_ssd = false;  // else from the host's memory
  OpKind kind = OpKind::load;
  std::uint16_t tensor = 0;
  std::uint16_t backend = 0;
};

/// Adds the load of GPU `gpu` of those that are simulated, to begin after operation `after` (engine::kNoOp:
/// at once). From the SSD it comes in pieces, so that one crosses the link while the next is read; all
/// `ranks` GPUs of the node read at once.
void add_expert_load(LabelledGraph& out, const ExpertLoad& load, const PagedResources& resources,
                     std::size_t gpu, const TimingModel& timing, int ranks, engine::OpIndex after);

}  // namespace moelab
