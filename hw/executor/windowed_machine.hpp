// The machine that pages experts, whole layers at a time: what a windowed stage's operations are on hardware.
//
//   remap             the half's pages, one tensor type, from the layer that had them to this one
//                     (expert_pages.hpp)
//   load              the layer's experts of a backend outside the GPU, one tensor type, copied over the link
//   decode            those that lie compressed in the GPU's memory, decoded and joined into the window
//   grouped_experts   the networks of all experts that the step uses, one after the other, from the window
//   and
//                     from the GPU's memory; before them what shared experts compute
//
// What else a step does is in step_operations.hpp. The GPU pages (paging_device.hpp): CUDA's maps physical
// memory to addresses, one that the CPU plays moves the process's pages.
//
// With `verify` each expert's tensors are compared with their checksums where they are used, and what comes
// out of each expert with what comes out of the same network computed from the tensors in the host's memory,
// which never move: a resident run's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hw/executor/compute_device.hpp"
#include "hw/executor/device_experts.hpp"
#include "hw/executor/expert_pages.hpp"
#include "hw/executor/machine.hpp"
#include "hw/executor/step_operations.hpp"
#include "models/architecture.hpp"
#include "sim/engine/window_mirror.hpp"

namespace moelab {

struct WindowedMachineOptions {
  KvSwapRoom swaps = {};
  std::uint64_t memory_limit = 0;  // bytes of stored experts and window, from the plan; 0: none
  bool verify = true;              // checksums and results; off to time what is left
  bool dense = true;               // off: dense and shared parts take no time
};

/// Of experts on their way into the window.
struct StreamedBytes {
  std::uint64_t loaded = 0;   // over the link
  std::uint64_t decoded = 0;  // plain, from the GPU's memory
  bool operator==(const StreamedBytes&) const = default;
};

class WindowedMachine final : public Machine, public engine::WindowMirror {
 public:
  /// Everything by reference outlives it. Throws InputError where the store is of another model,
  /// std::invalid_argument for a device that does not page or has no memory of its own.
  WindowedMachine(const ChunkStoreReader& store, const Architecture& model, ComputeDevice& gpu,
                  const HostExperts& host, const WindowedMachineOptions& options);

  void begin(const engine::Graph& graph, engine::OpIndex op) override;
  void run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) override;
  void end(const engine::Graph& graph, engine::OpIndex op) override;

  // What the stage tells. store() throws InputError for backends that a stand-in has not, and for experts and
  // window that are more than the limit.
  void store(const engine::StoredExperts& experts) override;
  void load(std::uint32_t layer, std::uint32_t half) override;
  void compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) override;
  void release(std::uint32_t layer) override;

  const MemoryLedger& ledger() const { return ledger_; }
  /// Of layers that have computed: what was on its way at the end of a run is not in it.
  const StreamedBytes& streamed() const { return streamed_; }
  const KvSwaps* swaps() const { return step_.swaps(); }
  /// With `verify`: of all that the experts computed, in its order.
  std::uint64_t results() const { return results_; }

 private:
  enum class From : std::uint8_t { gpu, codec, host };
  using Brought = DeviceExperts::Placed;
  struct Half {
    bool taken = false;
    std::atomic<std::uint64_t> loaded = 0, decoded = 0;  // bytes so far
  };
  std::uint32_t half_that_holds(std::uint32_t layer) const;
  From from_of(const std::string& backend) const;
  void keep_on_gpu();
  std::vector<Brought> brought(std::uint32_t layer, const OpLabel& label);
  bool has_half(std::uint32_t layer) const { return half_of_[layer] < ExpertPages::kHalves; }
  void run_load(std::uint32_t layer, const OpLabel& label);
  void run_decode(std::uint32_t layer, const OpLabel& label);
  void run_experts(const LabelledGraph& graph);
  ExpertOperands operands_for(std::uint32_t layer, std::uint32_t expert);
  void check_results(const ExpertOperands& operands, std::uint32_t layer, std::uint32_t expert,
                     std::uint32_t tokens);

  const ChunkStoreReader& store_;
  const ExpertWeights& weights_;
  ComputeDevice& gpu_;
  PagingDevice& paging_;
  const HostExperts& host_;
  bool verify_;
  MemoryLedger ledger_;
  StepOperations step_;
  DeviceExperts kept_;
  engine::StoredExperts stored_;
  std::vector<From> from_;  // by backend
  std::optional<ExpertPages> pages_;
  std::vector<std::vector<std::size_t>> streaming_;  // by layer: backends that bring something
  std::array<Half, ExpertPages::kHalves> halves_;
  /// By layer; a layer's operations read its own, which changes before the first and after the last of them.
  std::vector<std::uint32_t> half_of_;
  std::uint32_t computes_ = ExpertPages::kNoLayer;  // the layer that tokens_ are of
  std::vector<std::uint32_t> tokens_;               // by expert
  StreamedBytes streamed_;
  std::uint64_t results_ = 0;
};

}  // namespace moelab
