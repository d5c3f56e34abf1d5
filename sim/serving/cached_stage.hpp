// Experts one by one, from a cache and what is behind it: layers -> decisions -> operations.
//
//   layer:  dense part -> experts -> all-reduce -> gates ahead, if anything predicts
//
// The dense part's gate says which experts are used, and the routing policy may change that; the cache says
// in which state they are; the schedule policy orders their operations (with a discrete GPU the execution
// policy does, and leaves some to the CPU); the graph runs; the cache learns what was used. Prefetches run
// beside all that at a lower priority.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "models/timing.hpp"
#include "policies/routing/routing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/serving/all_reduces.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/draft_times.hpp"
#include "sim/serving/expert_cache.hpp"
#include "sim/serving/layer_supply.hpp"
#include "sim/serving/layer_uses.hpp"
#include "sim/serving/prefetcher.hpp"
#include "sim/serving/server_context.hpp"
#include "sim/serving/server_state.hpp"
#include "sim/serving/servers_present.hpp"
#include "sim/serving/serving_stage.hpp"
#include "sim/serving/step_gates.hpp"
#include "sim/serving/step_outcome.hpp"

namespace moelab {

namespace engine {
class ExpertMirror;
}
class RoutingTrace;
struct ExpertCosts;
struct MemoryPlan;
struct Scenario;
struct SystemConfig;

struct CachedStageOptions {
  std::string_view prefix{};  // of its resources' names
  /// Told of every change of what is kept of an expert; by the constructor, of what is kept from the start.
  engine::ExpertMirror* mirror = nullptr;
  /// [layers * experts] uses of experts in an offline profile, for caches that need one. Read by the
  /// constructor.
  std::span<const double> profile{};
  LoadWitness witness;  // empty: the execution policy hears what was
  ServerPresence presence{};
};

class CachedStage final : public ServingStage {
 public:
  /// Everything by reference outlives the stage. `pools` are the plan's capacities in experts a layer (0 for
  /// caches without pools).
  CachedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
              const RoutingTrace& trace, const ExpertCosts& costs, const MemoryPlan& memory,
              const std::array<std::uint32_t, kStates>& pools, CachedStageOptions options);
  CachedStage(const CachedStage&) = delete;  // its parts know each other
  CachedStage& operator=(const CachedStage&) = delete;

  void begin_step() override;
  StageWait begin_drafting() override;
  StageWait begin_layer(std::size_t layer) override;
  StageWait begin_head() override;
  StageWait begin_end() override;
  StageWait next() override;

  std::uint64_t kv_blocks() const override;
  SwapPath swap_path(std::size_t /*gpu*/) const override { return {resources_.io, resources_.link_out}; }
  double resident_share() const override;
  const TimingModel& timing() const override { return timing_; }
  bool lost() const override { return gone_; }
  StageWait away() override;

  /// The server leaves its cluster at this moment: what it computes is lost, and so is what it keeps.
  void leave();

  const ServerResources& resources() const { return resources_; }
  /// Experts that its cache keeps whole now.
  std::uint64_t experts_held() const { return options_.presence.up() ? cache_.whole_experts() : 0; }

 private:
  enum class Part : std::uint8_t {
    drafts,
    dense,
    experts,
    gathering,
    all_reduce,
    prediction,
    layer_end,
    head,
    fetches,
    over
  };
  LabelledGraph* start(Part part);
  LabelledGraph* start_drafts();
  LabelledGraph* start_dense();
  LabelledGraph* start_experts();
  LabelledGraph* start_gathering();
  LabelledGraph* start_all_reduce();
  LabelledGraph* start_wait_for_prediction();
  LabelledGraph* start_wait_for_fetch();
  Part after(Part part) const;
  void count(Part part, const LabelledGraph& graph);
  void count_lost(const LabelledGraph& graph);
  Bytes kept_bytes() const;
  void show_memory() const;
  void make_policies();
  void abandon();
  void come_back();

  // One layer, in this order.
  void submit_dense(std::size_t layer);
  bool skip_dense(double seconds);
  void route(std::uint32_t moe_layer);
  void substitute(std::uint32_t moe_layer);
  void prefetch(std::uint32_t moe_layer);
  void submit_prediction(std::uint32_t moe_layer);
  void gather_experts(std::uint32_t moe_layer);
  void add_demand(std::uint32_t moe_layer, const ExpertUse& use);
  void count_use(std::uint32_t moe_layer, std::uint32_t expert, State found);
  void submit_experts(std::uint32_t moe_layer, const KernelTime& shared);
  void add_waits();
  bool skip_experts(double shared_s);
  void finish_layer(std::uint32_t moe_layer);
  void submit_head();

  void add_kernel(LabelledGraph& out, engine::ResourceId stream, const KernelTime& time, OpKind kind) const;
  engine::OpIndex add_host(Seconds time);
  bool may_skip() const;
  void account_experts();
  void add(const StepOutcome& outcome);
  double expert_seconds(std::uint32_t tokens) {
    if (pass_.tokens == 1) return single_expert_s_;
    if (tokens >= expert_seconds_.size()) compute_expert_seconds(tokens);
    return expert_seconds_[tokens];
  }
  void compute_expert_seconds(std::uint32_t tokens);
  ServerContext context();

  ServerState& state_;
  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const ExpertCosts& costs_;
  CachedStageOptions options_;
  TimingModel timing_;
  DenseTimes dense_times_;
  std::unique_ptr<DraftTimes> draft_times_;  // nullptr: drafting takes no time
  std::uint32_t experts_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense
  std::vector<int> moe_layers_;            // by MoE layer: its number among all of the model
  ServerResources resources_;
  AllReduces all_reduces_;
  Metrics& metrics_;
  const Pass& pass_;

  ExpertCache cache_;
  LayerSupply supply_;
  std::unique_ptr<Prefetcher> prefetcher_;  // nullptr: none
  std::unique_ptr<RoutingPolicy> routing_;  // nullptr: as the model chose
  std::unique_ptr<StepGates> gates_;        // where a policy wants the scores of all experts

  LabelledGraph dense_, layer_, prediction_;
  std::vector<std::uint64_t> codes_;  // what the layer's outcome depends on, for memo_
  LayerMemo memo_;
  bool remember_ = false;      // the layer that runs has memo_'s last key
  StepOutcome dense_outcome_;  // of a dense part of one operation
  struct Awaited {
    std::size_t position;
    engine::Graph* fetch;
  };
  std::vector<Awaited> awaited_;  // experts of supply_ that are on their way
  std::vector<FetchWait> waits_;
  LayerUses layer_uses_;
  std::span<const ExpertUse> uses_;
  std::vector<ExpertUse> on_gpu_;       // of these, what the GPU computed
  std::vector<std::uint8_t> resident_;  // [experts] of a layer: 1 on the GPU
  StepRouting step_routing_;
  std::vector<double> expert_seconds_;  // by tokens, as far as known, in steps of several tokens
  double single_expert_s_ = 0;          // in steps of one
  const MemoryPlan& memory_;

  Part part_ = Part::over;                  // that is under way
  LabelledGraph* awaited_graph_ = nullptr;  // what it waits for; nullptr: it has not begun
  double waits_since_ = 0;                  // for a prediction
  FetchSlot* ending_fetch_ = nullptr;       // that is waited for at the end of a run
  std::size_t model_layer_ = 0;             // the one that runs
  std::uint32_t moe_layer_ = 0;             // its number among those with experts, if it has any
  double kv_tokens_ = 0;                    // that the batch has in the KV cache
  double kv_refused_ = 0;                   // of these, that the last step found refused
  double kv_encoded_ = 0;                   // tokens of the encoder there
  bool predicts_ = false;                   // prediction_ belongs to the layer that runs
  bool gone_ = false;                       // has left since the step began
  bool abandoned_ = false;                  // and its requests under way are given up
  bool ended_ = false;                      // all is served
};

}  // namespace moelab
