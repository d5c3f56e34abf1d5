// Experts fetched ahead of their demand: wishes of the prefetch policy -> fetches at low priority -> the
// cache, or the layer that wanted them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "policies/prefetch/prefetch.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/serving/expert_cache.hpp"
#include "sim/serving/fetch_buffer.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/serving/pass.hpp"
#include "sim/serving/server_context.hpp"
#include "sim/serving/step_gates.hpp"

namespace moelab {

/// Layers are MoE layers; experts are numbered within their layer. Beside what the members say, what has
/// arrived is offered to the cache, and what was fetched for a layer that has passed goes.
class Prefetcher {
 public:
  /// nullptr where the system has no prefetch policy. Everything by reference outlives it; `schedule` orders
  /// the tasks of a fetch.
  static std::unique_ptr<Prefetcher> make(const ServerContext& server, ExpertCache& cache,
                                          SchedulePolicy& schedule);

  void begin_request() { policy_->begin_request(); }
  void begin_pass(std::uint64_t number);
  /// A routing policy is about to see who is there.
  void before_routing(std::uint32_t layer) { settle(time_of(pass_, layer)); }

  /// Marks experts of a layer, [experts], that wait beside the cache.
  void add_waiting(std::uint32_t layer, std::vector<std::uint8_t>& there) const;
  /// Whether the GPU runs the next layer's attention ahead of it, to predict its gate, while this one runs.
  bool predicts(std::uint32_t layer) const;
  /// The layer's gate has run: fetches begin, with `prediction`, if there is one, before their reads.
  void after_gate(std::uint32_t layer, const Pass& pass, std::span<const ExpertUse> uses,
                  engine::Graph* prediction);

  /// What a demand finds.
  struct Met {
    State found;                     // the state that the expert counts as found in
    State held;                      // once `fetch`, if there is one, is done
    engine::Graph* fetch = nullptr;  // on its way, from now on with the urgency of a demand
  };
  /// How an expert is demanded: to be executed, or only made ready; for some token as one of those that
  /// matter, where a routing policy classed them.
  struct Demand {
    bool executes, top_score;
  };
  /// An expert of the layer that runs is demanded, of which the cache holds `kept`. A fetch that has not
  /// begun makes room for the demand.
  Met meet(std::uint32_t layer, std::uint32_t expert, State kept, Demand demand);
  /// An expert has been used: what was fetched of it is the cache's now, or dropped.
  void used(std::uint32_t layer, std::uint32_t expert);

  void after_layer(std::uint32_t layer) { settle(time_of(pass_, layer) + 1); }

  // At the end of a run: all are cancelled; each that is on its way still is waited for and dropped; then
  // end() counts what was never used.
  void cancel_all();
  FetchSlot* on_its_way() { return fetches_.any(); }  // nullptr: none
  void drop(FetchSlot& slot);
  void end();

 private:
  Prefetcher(const ServerContext& server, ExpertCache& cache, SchedulePolicy& schedule,
             const PrefetchPolicyEntry& entry);

  /// A layer's place in the run: rises from layer to layer and pass to pass.
  std::uint64_t time_of(std::uint64_t pass, std::uint32_t layer) const { return pass * layers_ + layer; }
  std::uint32_t object(std::uint32_t layer, std::uint32_t expert) const { return layer * experts_ + expert; }
  Stack stack(std::uint32_t layer) const { return stacks_[layer]; }
  void look_ahead(std::uint32_t layer, const Pass& pass);
  void start(const Fetch& fetch, std::uint64_t due, engine::Graph* prediction);
  void settle(std::uint64_t now);
  void cancel_unstarted(std::uint64_t now);
  void cancel(FetchSlot& slot);
  double release(FetchSlot& slot);
  void free_slot(FetchSlot& slot);
  void end_taken(std::uint32_t object, bool was_used, bool top_score);

  ServerContext server_;
  ExpertCache& cache_;
  SchedulePolicy& schedule_;
  std::unique_ptr<PrefetchPolicy> policy_;
  bool runs_attention_ahead_;  // as its entry says
  std::uint32_t layers_, experts_;
  std::vector<Stack> stacks_;               // by layer
  std::unique_ptr<StepGates> gates_ahead_;  // where the policy looks ahead
  LayerGraphBuilder builder_;
  LayerInstance instance_;  // of a fetch
  LayerOrder order_;
  FetchBuffer fetches_;
  std::vector<Fetch> wishes_;
  std::vector<std::uint8_t> resident_;  // [experts] of a layer ahead
  static constexpr double kNotTaken = -1;
  /// By layer * experts + expert: bytes read for one that the cache has taken and that was not used yet.
  std::vector<double> taken_bytes_;
  std::uint64_t pass_ = 0;  // that runs
};

}  // namespace moelab
