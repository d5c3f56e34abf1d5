// A server's own experts beside those that are placed on its GPUs: all of them lie in its host memory or on
// its SSD, whole or compressed, and what it has loaded its first GPU may keep in a cache. What is behind the
// calls of servers that load what they lack (PlacedConfig::execution): the same cache, page cache, order and
// operations that a machine alone has (sim/serving), on the resources of a server that others call.
//
//   one load for a layer:  clear() -> add() each -> build() -> count() -> keep()
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/cluster_resources.hpp"
#include "sim/serving/expert_cache.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/layer_supply.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/pass.hpp"

namespace moelab {

struct ClusterWorld;

class HomeStore {
 public:
  /// Everything by reference outlives the store. Its counts go to `metrics`.
  HomeStore(ClusterWorld& world, std::uint32_t server, Metrics& metrics);
  HomeStore(const HomeStore&) = delete;  // its parts know it
  HomeStore& operator=(const HomeStore&) = delete;

  State state(std::uint32_t layer, std::uint32_t expert) const { return cache_->state(layer, expert); }
  /// Until an expert that is kept so can be computed, with everything to itself; 0: it is there.
  double seconds(State held) const { return costs_.supply_s(held, memory_.experts_on_ssd); }
  double execution_seconds(std::uint32_t tokens) const;
  /// Experts that the cache keeps whole.
  std::uint64_t experts_held() const { return cache_->whole_experts(); }
  const ExpertCosts& costs() const { return costs_; }

  void begin_batch() { cache_->begin_request(); }
  void begin_layer(const Pass& pass, std::uint32_t layer) { cache_->begin_step(pass, layer, {}); }
  void clear() { supply_->clear(); }
  /// One more that is loaded and computed here, and counts as found where it is kept.
  void add(const Pass& pass, std::uint32_t layer, const ExpertUse& use);
  void build(std::uint32_t step_tokens, LabelledGraph& out);
  /// A graph of build() has ended, or was cancelled.
  void count(const LabelledGraph& graph);
  /// `uses`: experts of the layer that are or were here, in ascending order.
  void end_layer(std::uint32_t layer, std::span<const ExpertUse> uses) {
    cache_->end_step(layer, uses, !uses.empty());
  }

  /// One expert on its way to be placed on a GPU of the server, the first being 0: `out` makes it ready and
  /// computes nothing. What is done when all that is done is added last. `from_ssd`: whatever lies in the
  /// host's memory.
  void add_placing(std::uint32_t gpu, std::uint32_t layer, std::uint32_t expert, bool from_ssd,
                   LabelledGraph& out);

  /// The server has left: what it kept is gone.
  void restart();

 private:
  ServerContext context(Metrics& metrics) const;

  ClusterWorld& world_;
  Scenario scenario_;  // of the server as a machine of its own
  MemoryPlan memory_;
  ExpertCosts costs_;
  const TimingModel& timing_;
  ServerResources resources_;
  engine::ResourceId instant_;  // takes any number of operations at once
  Metrics& metrics_;
  std::optional<ExpertCache> cache_;
  std::optional<LayerSupply> supply_;
  std::deque<ServerResources> of_gpus_;  // by GPU of the server; the first one's are resources_
  std::deque<LayerSupply> placing_;      // by GPU
};

}  // namespace moelab
