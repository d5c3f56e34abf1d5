// Where experts are at this moment: what every server asks before it calls another, and what migration and
// faults change. Beside it, the calls that are on their way to each GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/placement.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

class LivePlacement {
 public:
  LivePlacement(const PlacementShape& shape, Placement start);

  const Placement& placement() const { return placement_; }
  /// An expert is there from now on. Room for it has been made before.
  void arrive(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert);
  /// No call is sent to it any more; those on their way still find it.
  void leave(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert);
  /// A server has lost what its GPUs held.
  void clear(std::uint32_t server);
  /// Experts that no server holds.
  std::uint64_t uncovered() const { return uncovered_; }

  /// Calls to a GPU, from when they are sent until they are answered.
  void begin_call(std::uint32_t gpu, LabelledGraph& call) { calls_[gpu].push_back(&call); }
  void end_call(std::uint32_t gpu, LabelledGraph& call);
  const std::vector<LabelledGraph*>& calls(std::uint32_t gpu) const { return calls_[gpu]; }

 private:
  const PlacementShape& shape_;
  Placement placement_;
  std::uint64_t uncovered_ = 0;
  std::vector<std::vector<LabelledGraph*>> calls_;  // by GPU
};

}  // namespace moelab
