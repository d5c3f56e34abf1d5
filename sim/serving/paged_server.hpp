// The serving loop where experts and KV cache are paged (SystemConfig::paging): requests come and go, the
// batching policy forms a step of them, and each step goes through the layers:
//
//   step:   residency policy moves experts -> blocks of the KV cache are swapped -> layers -> head
//   layer:  host -> attention -> all-reduce -> experts, all in one kernel -> all-reduce
//           beside it the next layer's experts come into the window (expert_window.hpp)
//
// Whole layers are loaded whatever is routed, so routing decides only how many experts a step touches and
// with that how long it computes.
#pragma once

#include <memory>
#include <vector>

#include "sim/serving/dense_times.hpp"
#include "sim/serving/expert_window.hpp"
#include "sim/serving/kv_swap.hpp"
#include "sim/serving/paged_residency.hpp"
#include "sim/serving/request_stream.hpp"
#include "sim/serving/serving_account.hpp"

namespace moelab {

class PagedServer {
 public:
  /// Everything by reference outlives the server. `plan` has no shortfall; `observer` may be nullptr and
  /// `progress` empty.
  PagedServer(engine::Engine& engine, const Scenario& scenario, const SystemConfig& system,
              const RoutingTrace& trace, const PagedPlan& plan, const std::vector<ServedRequest>& requests,
              GraphObserver* observer, ServingProgress progress);

  /// Serves every request once.
  engine::Process serve();
  const Metrics& metrics() const { return metrics_; }

 private:
  void begin_step();
  bool submit_swaps();
  void load_ahead(std::size_t layer);
  void submit_layer(std::size_t layer);
  engine::OpIndex add_kernel(const KernelTime& time, OpKind kind, engine::OpIndex after);
  engine::OpIndex add_all_reduce(engine::OpIndex after);
  engine::OpIndex add_host(double seconds);
  KernelTime experts_time(std::size_t layer);
  std::uint32_t distinct_experts(std::uint32_t moe_layer);
  void finish_layer(std::size_t layer);
  void submit_head();
  void account(const LabelledGraph& graph, std::int32_t layer);
  void finish_step();

  engine::Engine& engine_;
  const Scenario& scenario_;
  const SystemConfig& system_;
  const RoutingTrace& trace_;
  const PagedPlan& plan_;
  GraphObserver* observer_;  // nullptr: nobody looks
  ServingProgress progress_;
  TimingModel timing_;
  DenseTimes dense_times_;
  PagedResources resources_;
  std::unique_ptr<BatchingPolicy> batching_;
  PagedResidency residency_;
  ExpertWindow window_;
  ListedRequests source_;
  RequestStream stream_;
  std::vector<std::int32_t> moe_numbers_;  // by model layer; -1: dense
  std::vector<KernelTime> experts_times_;  // by model layer, of the step that runs: shared ones included

  Pass pass_;
  LabelledGraph swaps_, layer_;
  engine::OpIndex experts_op_ = engine::kNoOp;
  std::vector<FetchWait> waits_;
  std::vector<std::uint64_t> touched_;  // a bit an expert
  double all_reduce_s_ = 0;             // one, of the step that runs
  double compute_s_ = 0;                // of the last step that began, weights resident: tau_comp(theory)
  Metrics metrics_;
  ServingAccount account_;
};

}  // namespace moelab
