// Experts layer by layer, through a window beside the KV cache (SystemConfig::paging):
//
//   between steps:  the residency policy moves experts, and the KV cache has what they leave
//   layer:          host -> attention -> all-reduce -> experts, all in one kernel -> all-reduce
//                   beside it the next layer's experts come into the window (expert_window.hpp)
//
// Whole layers are loaded whatever is routed, so routing decides only how many experts a step touches and
// with that how long it computes.
#pragma once

#include <vector>

#include "sim/serving/dense_times.hpp"
#include "sim/serving/expert_window.hpp"
#include "sim/serving/paged_residency.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/serving_stage.hpp"

namespace moelab {

class WindowedStage final : public ServingStage {
 public:
  /// Everything by reference outlives the stage. `plan` has no shortfall.
  WindowedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                const RoutingTrace& trace, const PagedPlan& plan, const std::vector<ServedRequest>& requests);

  void between_steps() override;
  void begin_step() override;
  StageWait begin_layer(std::size_t layer) override;
  StageWait begin_head() override;
  StageWait begin_end() override;
  StageWait next() override;
  void end_step(const KvUse& use) override;

  std::uint64_t kv_blocks() const override { return residency_.kv_blocks(); }
  SwapPath swap_path() const override { return {resources_.link_in, resources_.link_out, resources_.link}; }
  double resident_share() const override { return residency_.split().gpu_share(); }
  const TimingModel& timing() const override { return timing_; }

 private:
  void load_ahead(std::size_t layer);
  void submit_layer(std::size_t layer);
  engine::OpIndex add_kernel(const KernelTime& time, OpKind kind, engine::OpIndex after);
  engine::OpIndex add_all_reduce(engine::OpIndex after);
  engine::OpIndex add_host(double seconds, engine::OpIndex after);
  KernelTime experts_time(std::size_t layer);
  std::uint32_t distinct_experts(std::uint32_t moe_layer);
  void finish_layer();
  void submit_head();
  StageWait cancel_load();

  ServerState& state_;
  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const PagedPlan& plan_;
  TimingModel timing_;
  DenseTimes dense_times_;
  PagedResources resources_;
  PagedResidency residency_;
  ExpertWindow window_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense
  std::vector<KernelTime> experts_times_;  // by model layer, of the step that runs: shared ones included
  std::vector<double> gathering_s_;        // by model layer: the host's time when its experts have run

  const Pass& pass_;
  Metrics& metrics_;
  LabelledGraph layer_;
  std::int32_t model_layer_ = 0;          // that layer_ is of; -1: the head
  LabelledGraph* ending_load_ = nullptr;  // that is waited for at the end of a run
  engine::OpIndex experts_op_ = engine::kNoOp;
  std::vector<FetchWait> waits_;
  std::vector<std::uint64_t> touched_;  // a bit an expert
  double all_reduce_s_ = 0;             // one, of the step that runs
  double compute_s_ = 0;                // of the last step that began, weights resident: tau_comp(theory)
};

}  // namespace moelab
