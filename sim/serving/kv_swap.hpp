// Blocks of the KV cache on their way between a GPU's memory and the host's.
#pragma once

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

/// What copies take.
struct SwapPath {
  engine::ResourceId link_in;                     // from the host's memory
  engine::ResourceId link_out;                    // to it
  engine::CapacityId link = engine::kNoCapacity;  // that all that comes in shares; none: each alone
};

/// Adds copies of KV-cache blocks to the host's memory, then from it. Blocks come in once those that leave
/// are gone, as they take their places.
void add_swaps(LabelledGraph& swaps, Bytes out, Bytes in, const SwapPath& path, const TimingModel& timing);

}  // namespace moelab
