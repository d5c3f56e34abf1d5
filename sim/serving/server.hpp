// One server's serving loop: requests -> batches -> passes -> layers -> decisions -> operations.
//
// For each layer: the dense part runs; its gate says which experts are used, and the routing policy may
// change that; the cache says in which state they are; the schedule policy orders their operations (with a
// discrete GPU the execution policy does, and leaves some to the CPU); the graph runs; the cache learns what
// was used. Prefetches run beside all that at a lower priority. The loop is a coroutine, so that several
// servers can live in one engine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/timing.hpp"
#include "policies/cache/cache.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/batch.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/fetch_buffer.hpp"
#include "sim/serving/future_uses.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/missing_experts.hpp"
#include "sim/serving/page_cache.hpp"
#include "sim/serving/step_gates.hpp"
#include "sim/serving/step_outcome.hpp"

namespace moelab {

/// Which requests a server serves next, and when they came: where they come when they come, or go where
/// others send them.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  struct Arrival {
    std::size_t request;  // its number in the trace
    double at_s;
  };
  /// Takes up to `most` requests that are there at `now`; empty: there are none.
  virtual std::span<const Arrival> take(double now, std::size_t most) = 0;
  /// When there may be some, if there are none now; nullopt: never.
  virtual std::optional<double> next_time() const = 0;
  /// One of those taken is answered.
  virtual void finished(const Arrival& arrival, double now) = 0;
};

struct ServerOptions {
  /// nullptr: batches of the trace's requests in order, each of which comes when the one before is done.
  RequestSource* source = nullptr;
  std::string_view prefix{};  // of its resources' names
  GraphObserver* observer = nullptr;
  /// Told of every change of what is kept of an expert; by the constructor, of what is kept from the start.
  engine::ExpertMirror* mirror = nullptr;
  /// [layers * experts] uses of experts in an offline profile, for caches that need one. Read by the
  /// constructor.
  std::span<const double> profile{};
  LoadWitness witness;  // empty: the execution policy hears what was
  /// Called after each pass with tokens generated so far; may throw to stop the run.
  std::function<void(std::uint64_t tokens)> progress;
};

class Server {
 public:
  /// Everything by reference outlives the server. `pools` are the plan's capacities in experts a layer (0 for
  /// caches without pools).
  Server(engine::Engine& engine, const Scenario& scenario, const SystemConfig& system,
         const RoutingTrace& trace, const ExpertCosts& costs, const MemoryPlan& memory,
         const std::array<std::uint32_t, kStates>& pools, ServerOptions options);

  /// The serving loop: serves every request of the trace once.
  engine::Process serve();

  const Metrics& metrics() const { return metrics_; }
  const ServerResources& resources() const { return resources_; }
  /// Experts that its cache keeps whole now.
  std::uint64_t experts_held() const;

 private:
  // One layer, in the loop's order.
  void submit_dense(const KernelTime& time);
  void submit_head();
  bool may_skip() const;
  bool skip_dense(double seconds);
  bool skip_experts(double shared_s);
  void route(std::uint32_t moe_layer, const Pass& pass);
  void substitute(std::uint32_t moe_layer, const Pass& pass);
  void find_resident(std::uint32_t moe_layer);
  void prefetch(std::uint32_t moe_layer, const Pass& pass);
  void look_ahead(std::uint32_t moe_layer, const Pass& pass);
  bool predicts(std::uint32_t moe_layer) const;
  void submit_prediction(std::uint32_t moe_layer);
  void gather_experts(std::uint32_t moe_layer, const Pass& pass);
  void count_use(std::uint32_t moe_layer, const ExpertUse& use, State found, bool prompt);
  void submit_experts(std::uint32_t moe_layer, const KernelTime& shared);
  engine::OpIndex add_kernel(LabelledGraph& out, engine::ResourceId stream, const KernelTime& time,
                             OpKind kind) const;
  void finish_layer(std::uint32_t moe_layer);
  void account(const LabelledGraph& graph, std::int32_t layer);
  void add_stall(Cause cause, double seconds);
  void add(const StepOutcome& outcome);
  bool start_batch(Batch& batch);
  void show_memory() const;
  void show_answer(std::size_t i) const;
  void finish_pass(const Batch& batch);

  // Experts.
  State state_of(std::uint32_t moe_layer, std::uint32_t expert) const;
  CachePolicy& domain(std::uint32_t moe_layer) { return *caches_[entry_->per_model ? 0 : moe_layer]; }
  std::uint32_t object_in_domain(std::uint32_t moe_layer, std::uint32_t expert) const {
    return entry_->per_model ? moe_layer * experts_ + expert : expert;
  }
  ExpertReads plan_reads(std::uint32_t object, State state);
  std::array<double, kTiers> bytes_read(const LabelledGraph& graph) const;
  struct Demand {
    State found;
    State held;  // once the fetch that it waits for, if any, is done
  };
  void meet_fetch(std::uint32_t object, bool executes, Demand& demand);
  State add_demand(std::uint32_t moe_layer, std::uint32_t expert, std::uint32_t tokens, float score);
  void start_fetch(const Fetch& fetch, std::uint64_t due);
  void settle_fetches(std::uint64_t now_due);
  void cancel_unstarted(std::uint64_t here);
  double release(FetchSlot& slot);
  void drop(FetchSlot& slot);
  void cancel_fetch(std::uint32_t object, FetchSlot& slot);
  void free_slot(FetchSlot& slot);
  void preload_mirror();
  void tell_mirror(std::uint32_t moe_layer);
  void release_demands(std::uint32_t moe_layer);
  void end_taken(double& bytes, std::uint32_t object, bool used);
  double expert_seconds(std::uint32_t tokens) {
    if (tokens >= expert_seconds_.size()) compute_expert_seconds(tokens);
    return expert_seconds_[tokens];
  }
  void compute_expert_seconds(std::uint32_t tokens);

  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const ExpertCosts& costs_;
  ServerOptions options_;
  TimingModel timing_;
  DenseTimes dense_times_;
  std::uint32_t experts_;
  std::vector<std::int32_t> moe_index_;   // by model layer: its number on the trace's layer axis, -1: dense
  std::vector<std::size_t> model_layer_;  // by MoE layer: its number among all of the model
  std::vector<Stack> moe_stack_;          // by MoE layer
  ServerResources resources_;

  const CachePolicyEntry* entry_;
  std::vector<std::unique_ptr<CachePolicy>> caches_;  // one a MoE layer, or one
  std::unique_ptr<SchedulePolicy> schedule_;
  std::unique_ptr<PrefetchPolicy> prefetch_;  // nullptr: none
  bool runs_attention_ahead_ = false;         // as its entry says
  std::unique_ptr<RoutingPolicy> routing_;    // nullptr: as the model chose
  std::unique_ptr<MissingExperts> missing_;   // nullptr: no discrete GPU
  std::unique_ptr<FutureUses> future_;
  std::unique_ptr<StepGates> gates_, gates_ahead_;  // where somebody wants the scores of all experts
  PageCache page_cache_;
  FetchBuffer fetches_;

  LayerGraphBuilder builder_;
  LabelledGraph dense_, layer_, prediction_;
  LayerInstance instance_, fetch_instance_;
  LayerOrder order_;
  std::vector<ExpertReads> reads_;
  std::vector<std::uint32_t> tokens_;  // by position in instance_; 0: does not execute
  std::vector<std::uint64_t> codes_;   // what the layer's outcome depends on, for memo_
  LayerMemo memo_;
  bool remember_ = false;      // the layer that runs has memo_'s last key
  StepOutcome dense_outcome_;  // of a dense part of one operation
  std::vector<std::pair<std::size_t, engine::Graph*>>
      awaited_;  // positions in instance_ that wait for a fetch
  std::vector<FetchWait> waits_;
  LayerUses layer_uses_;
  std::span<const ExpertUse> uses_;
  std::vector<float> scores_;           // by position in instance_
  std::vector<std::uint8_t> resident_;  // [experts] of a layer: 1 on the GPU
  StepRouting step_routing_;
  std::vector<Fetch> wishes_;
  static constexpr double kNotTaken = -1;
  /// By layer * experts + expert: bytes read for a prefetched expert that the cache has taken and nobody has
  /// used yet.
  std::vector<double> taken_bytes_;
  std::vector<double> expert_seconds_;  // by tokens, as far as known
  std::vector<State> mirrored_;         // by layer * experts + expert: what the mirror was told last

  bool prompt_ = false;            // of the pass that runs
  std::uint32_t step_tokens_ = 0;  // of the pass that runs
  bool predicts_ = false;          // prediction_ belongs to the layer that runs
  std::uint64_t pass_number_ = 0;
  double batch_begin_ = 0;                        // when the batch that runs was formed
  double kv_tokens_ = 0;                          // that its requests have in the KV cache
  std::vector<std::uint64_t> steps_;              // by MoE layer: how often it has run
  std::size_t next_request_ = 0;                  // without a source
  std::vector<RequestSource::Arrival> arrivals_;  // by request of the batch
  std::vector<double> first_token_, last_token_;  // by request of the batch; negative: none yet
  Metrics metrics_;
};

}  // namespace moelab
