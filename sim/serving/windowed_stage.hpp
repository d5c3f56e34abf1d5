// Experts layer by layer, through a window beside the KV cache (SystemConfig::paging):
//
//   between steps:  the residency policy moves experts, and the KV cache has what they leave
//   layer:          host -> attention -> all-reduce -> experts, all in one kernel -> all-reduce
//                   data parallel: host -> attention -> dispatch -> experts -> combination (gpu_times.hpp)
//                   beside it the next layer's experts come into the window (expert_window.hpp)
//
// Whole layers are loaded whatever is routed, so routing decides only how many experts a step touches and
// with that how long it computes.
#pragma once

#include <vector>

#include "sim/serving/expert_window.hpp"
#include "sim/serving/gpu_times.hpp"
#include "sim/serving/paged_residency.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/serving_stage.hpp"

namespace moelab {

class WindowedStage final : public ServingStage {
 public:
  /// Everything by reference outlives the stage. `plan` has no shortfall. `mirror` may be nullptr.
  WindowedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                const RoutingTrace& trace, const PagedPlan& plan, const std::vector<ServedRequest>& requests,
                engine::WindowMirror* mirror = nullptr);

  void between_steps() override;
  void begin_step() override;
  StageWait begin_layer(std::size_t layer) override;
  StageWait begin_head() override;
  StageWait begin_end() override;
  StageWait next() override;
  void end_step(const KvUse& use) override;

  std::uint64_t kv_blocks() const override;
  SwapPath swap_path(std::size_t gpu) const override {
    const PagedGpu& r = resources_.gpus[gpu];
    return {r.link_in, r.link_out, r.link};
  }
  std::size_t gpus() const override { return resources_.gpus.size(); }
  double resident_share() const override { return residency_.split().gpu_share(); }
  const TimingModel& timing() const override { return timing_; }

 private:
  void load_ahead(std::size_t layer);
  void submit_layer(std::size_t layer);
  void submit_experts(std::size_t layer);
  void add_kernel(std::size_t gpu, const KernelTime& time, OpKind kind);
  void add_host(std::size_t gpu, double seconds);
  void add_collective(const Collective& what);
  void add_behind(std::size_t gpu, engine::OpIndex op);
  void begin_graph();
  void finish_layer();
  void submit_head();
  void tell_compute(std::uint32_t moe_layer);
  StageWait cancel_load();

  ServerState& state_;
  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const PagedPlan& plan_;
  engine::WindowMirror* mirror_;
  TimingModel timing_;
  GpuTimes times_;
  PagedResources resources_;
  PagedResidency residency_;
  ExpertWindow window_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense

  const Pass& pass_;
  Metrics& metrics_;
  LabelledGraph layer_;
  std::int32_t model_layer_ = 0;                // that layer_ is of; -1: the head
  LabelledGraph* ending_load_ = nullptr;        // that is waited for at the end of a run
  std::vector<engine::OpIndex> last_, before_;  // of layer_, by GPU: what was added last; before a collective
  std::vector<engine::OpIndex> experts_ops_;    // of layer_, by GPU
  std::vector<FetchWait> waits_;
  std::vector<std::uint32_t> tokens_;  // of a layer, by expert, for the mirror
  double compute_s_ = 0;               // of the last step that began, weights resident: tau_comp(theory)
};

}  // namespace moelab
