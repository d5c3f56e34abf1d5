// Experts layer by layer, through a window beside the KV cache (SystemConfig::paging):
//
//   between steps:  the residency policy moves experts, and the KV cache has what they leave
//   layer:          host -> attention -> all-reduce -> experts, all in one kernel -> all-reduce
//                   data parallel: host -> attention -> dispatch -> experts -> combination (gpu_times.hpp)
//                   beside it the next layer's experts come into the window (expert_window.hpp)
//
// Whole layers are loaded whatever is routed (PagingConfig::Fetch::layer), but for experts that are pinned
// beside the window; routing then decides only how many experts a step touches, and with that how long it
// computes, and what policies that pin experts learn. Else a layer is two graphs, its gate between them:
//
//   ahead  experts come one by one; what the gate did not choose is not waited for (expert_fetches.hpp)
//   used   what the gate chose is loaded in the second graph, before the experts
//
// and a routing policy may choose otherwise, of experts that are pinned or have come. window_gate.cpp has all
// that goes by the number of an expert.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policies/routing/routing.hpp"
#include "sim/serving/draft_times.hpp"
#include "sim/serving/expert_fetches.hpp"
#include "sim/serving/expert_window.hpp"
#include "sim/serving/gpu_times.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/lone_chain.hpp"
#include "sim/serving/paged_residency.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/serving_stage.hpp"
#include "sim/serving/step_gates.hpp"
#include "sim/serving/window_experts.hpp"

namespace moelab {

class WindowedStage final : public ServingStage {
 public:
  /// Everything by reference outlives the stage. `plan` has no shortfall. `profile`: [layers, experts] uses
  /// in an offline profile, for a cache policy that needs one; read by the constructor. `mirror` may be
  /// nullptr. `prefix`: of its resources' names.
  WindowedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                const RoutingTrace& trace, const PagedPlan& plan, const std::vector<ServedRequest>& requests,
                std::span<const double> profile = {}, engine::WindowMirror* mirror = nullptr,
                const std::string& prefix = "");

  void between_steps() override;
  void begin_step() override;
  StageWait begin_drafting() override;
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
  double resident_share() const override;
  const TimingModel& timing() const override { return timing_; }

 private:
  bool may_chain();
  void submit();
  StageWait submitted();
  bool loads_any();
  void load_ahead(std::size_t layer);
  void load(std::uint32_t moe_layer);
  void submit_layer(std::size_t layer);
  void add_experts(std::size_t layer);
  void add_kernel(std::size_t gpu, const KernelTime& time, OpKind kind);
  void add_host(std::size_t gpu, double seconds);
  void add_collective(const Collective& what);
  void add_behind(std::size_t gpu, engine::OpIndex op);
  void begin_graph();
  void finish_layer();
  bool submit_drafts();
  void submit_head();
  void tell_compute(std::uint32_t moe_layer);
  StageWait cancel_load();
  void count_bytes();

  // By the numbers of experts (window_gate.cpp).
  bool waits_for_gate() const { return system_.paging->fetch != PagingConfig::Fetch::layer; }
  bool counts_uses() const { return waits_for_gate() || plan_.pinned > 0; }
  void load_by_use(std::uint32_t moe_layer);
  void submit_behind_gate(std::size_t layer);
  void route(std::size_t layer);
  void find_at_hand(std::uint32_t moe_layer);
  void count_routing();
  void count_use(std::uint32_t moe_layer, const ExpertUse& use);
  void choose(std::size_t gpu);
  void add_waits(std::size_t gpu);
  void add_demand(std::size_t gpu);
  void learn_uses();
  void show_fetch(const LabelledGraph& graph, std::uint32_t moe_layer) const {
    state_.show(graph, moe_layers_[moe_layer]);
  }

  ServerState& state_;
  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const PagedPlan& plan_;
  engine::WindowMirror* mirror_;
  TimingModel timing_;
  GpuTimes times_;
  std::unique_ptr<DraftTimes> draft_times_;  // nullptr: drafting takes no time
  PagedResources resources_;
  PagedResidency residency_;
  WindowExperts experts_;
  ExpertWindow window_;
  std::unique_ptr<ExpertFetches> fetches_;  // nullptr: experts do not come one by one ahead of their gate
  std::vector<std::int32_t> moe_numbers_;   // by model layer; -1: dense
  std::vector<int> moe_layers_;             // by MoE layer: its number among all of the model

  const Pass& pass_;
  Metrics& metrics_;
  LabelledGraph layer_;
  LoneChain chain_;
  bool chained_ = false;                        // what would be in layer_ is in chain_
  std::int32_t model_layer_ = 0;                // that layer_ is of; -1: the head
  LabelledGraph* ending_load_ = nullptr;        // that is waited for at the end of a run
  std::vector<engine::OpIndex> last_, before_;  // of layer_, by GPU: what was added last; before a collective
  std::vector<engine::OpIndex> experts_ops_;    // of layer_, by GPU
  std::vector<FetchWait> waits_;
  std::vector<WindowStream> streams_;  // by GPU, of the layer that is about to be loaded
  std::uint64_t looked_at_ = 0;        // PagedResidency::changes() + 1 when loads_ was found; 0: never
  bool loads_ = true;                  // some layer's experts come into the window

  bool at_gate_ = false;                    // layer_ ends with the gate of its layer
  std::unique_ptr<RoutingPolicy> routing_;  // nullptr: as the model chose
  std::unique_ptr<StepGates> gates_;        // where a policy wants the scores of all experts
  LayerUses layer_uses_;
  std::span<const ExpertUse> uses_;  // of the layer that runs
  StepRouting step_routing_;
  std::vector<std::uint8_t> at_hand_, chosen_;     // by expert of a layer; of a layer and GPU
  std::vector<std::uint64_t> used_;                // [layers, experts]: steps that used them so far
  std::vector<std::vector<std::uint32_t>> order_;  // by GPU: in which a layer's experts come
  std::vector<engine::Graph*> awaited_;
  std::vector<std::uint32_t> tokens_;  // of a layer, by expert, for the mirror
  double compute_s_ = 0;               // of the last step that began, weights resident: tau_comp(theory)
};

}  // namespace moelab
