// Where experts lie while serving: the residency policy moves them, what comes onto the GPU takes the link,
// and the KV cache is as large as the experts leave it.
#pragma once

#include <memory>

#include "models/timing.hpp"
#include "policies/batching/batching.hpp"
#include "policies/residency/residency.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/paged_resources.hpp"

namespace moelab {

class PagedResidency {
 public:
  /// Everything by reference outlives it. `ranks`: GPUs that share the SSD. `largest_request`: blocks of the
  /// KV cache that the largest request has in the end. `observer` may be nullptr.
  PagedResidency(engine::Engine& engine, const PagedResources& resources, const TimingModel& timing,
                 const PagedPlan& plan, const SystemConfig& system, int ranks, std::uint64_t largest_request,
                 GraphObserver* observer);

  const StorageSplit& split() const { return split_; }
  /// How often it has changed.
  std::uint64_t changes() const { return changes_; }
  /// Of the KV cache. blocks * block + experts never exceeds what was planned for both.
  std::uint64_t kv_blocks() const { return kv_blocks_; }
  /// Between two steps: moves experts, and gives the KV cache the blocks that they leave, no more than at the
  /// start without KvConfig::grows. `compute_s` of the last step; 0: there was none. Nothing moves
  /// while what moved before is on its way, or while there are no requests.
  void adjust(std::uint64_t step, double compute_s, BatchingPolicy& batching, ServingCounts& counts);

 private:
  double wanted_kv_bytes(const KvUse& use) const;
  void submit_promotions(ServingCounts& counts);
  void add_promotion(Bytes bytes, bool from_ssd);

  engine::Engine& engine_;
  const PagedResources& resources_;
  const TimingModel& timing_;
  const PagedPlan& plan_;
  std::unique_ptr<ResidencyPolicy> policy_;
  StorageSplit split_, split_before_;
  std::uint64_t changes_ = 0;
  int ranks_;
  std::uint64_t largest_request_;
  GraphObserver* observer_;
  std::uint64_t kv_blocks_;
  std::uint64_t most_kv_blocks_;
  LabelledGraph promotions_;
  bool promoting_ = false;
};

}  // namespace moelab
