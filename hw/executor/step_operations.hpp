// What a step does beside its experts, on any machine:
//
//   dense, shared     a kernel that moves as many bytes and computes as much, on the device
//   predict           a kernel as `dense`
//   host              waits as long as the simulator says the host program takes
//   wait              nothing
//   swap_out, swap_in blocks of the KV cache, copied over the link (kv_swaps.hpp)
#pragma once

#include <optional>
#include <stop_token>

#include "hw/executor/compute_device.hpp"
#include "hw/executor/kv_swaps.hpp"
#include "sim/engine/labelled_graph.hpp"

namespace moelab {

/// A graph's labels. Throws std::logic_error where it has none.
const LabelledGraph& labels_of(const engine::Graph& graph);

class StepOperations {
 public:
  /// The device outlives it. `dense` false: kernels take no time. Throws as KvSwaps does, where anything
  /// swaps.
  StepOperations(ComputeDevice& device, const KvSwapRoom& swaps, bool dense);

  // As Machine's; false: it is an operation of experts, and nothing was done.
  bool begin(const LabelledGraph& graph, engine::OpIndex op);
  bool run(const LabelledGraph& graph, engine::OpIndex op, const std::stop_token& stop);

  /// A dense kernel, or none where they take no time.
  void compute(const KernelWork& work);
  /// nullptr: nothing swaps.
  const KvSwaps* swaps() const { return swaps_ ? &*swaps_ : nullptr; }

 private:
  KvSwaps& kv();

  ComputeDevice& device_;
  std::optional<KvSwaps> swaps_;
  bool dense_;
};

}  // namespace moelab
