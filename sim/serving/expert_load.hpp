// Experts on their way onto the GPU: from the host's memory over the link, or from the SSD before that.
#pragma once

#include "models/timing.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/paged_resources.hpp"

namespace moelab {

struct ExpertLoad {
  Bytes bytes;            // of one GPU, above 0
  bool from_ssd = false;  // else from the host's memory
  bool cached = false;  // by the page cache: likewise, but where there is one memory it is copied from there
  OpKind kind = OpKind::load;
  std::uint16_t tensor = 0;  // kWholeExpert: one expert, whose `expert` is its number
  std::uint32_t expert = 0;
  std::uint16_t backend = 0;
};

/// Adds the load of GPU `gpu` of those that are simulated, to begin after operation `after` (engine::kNoOp:
/// at once); returns its last operation. Many experts come from the SSD in pieces, so that one crosses the
/// link while the next is read, one in one piece; all `ranks` GPUs of the node read at once. With one memory
/// for CPU and GPU there is nothing to do for what the host's has (engine::kNoOp), unless it is the page
/// cache's.
engine::OpIndex add_expert_load(LabelledGraph& out, const ExpertLoad& load, const PagedResources& resources,
                                std::size_t gpu, const TimingModel& timing, int ranks, engine::OpIndex after);

/// Adds the decoding of so many plain bytes into the window, which shares the GPU's memory with what
/// computes.
engine::OpIndex add_decoding(LabelledGraph& out, Bytes plain, const GpuCodecProfile& codec,
                             const PagedGpu& gpu, const TimingModel& timing, engine::OpIndex after,
                             const OpLabel& label);

}  // namespace moelab
