// The experts of one layer step that are kept on this machine or come from behind its cache: who needs what,
// in which order it is made ready, and the operations of that.
//
//   clear() -> add() each -> plan() -> build()
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/schedule/schedule.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/serving/missing_experts.hpp"
#include "sim/serving/server_context.hpp"

namespace moelab {

class LayerSupply {
 public:
  /// What `server` refers to outlives the supply. `staged`: experts that there is room for while they are
  /// made ready (LayerGraphBuilder).
  LayerSupply(const ServerContext& server, std::size_t staged);

  /// Forgets what its policies have learned.
  void restart();

  void clear();
  /// One expert more, found in state `held`, which takes `execute_s` (hand-over aside) for `tokens` > 0
  /// tokens; of no tokens it is only made ready. `score`: of its tokens, where the execution policy asks.
  void add(std::uint32_t expert, State held, const ExpertReads& reads, std::uint32_t tokens, float score,
           double execute_s);
  /// With a discrete GPU and whole experts: who computes what is missing, for a step of so many tokens.
  void plan(std::uint32_t step_tokens);
  /// Whether that leaves anything to the CPU's choice: what a layer comes to then depends on more than the
  /// states of its experts.
  bool chooses() const { return missing_ != nullptr; }
  std::uint64_t loaded() const { return missing_ ? missing_->loaded() : 0; }
  std::uint64_t left_to_cpu() const { return missing_ ? missing_->left_to_cpu() : 0; }
  bool on_cpu(std::size_t position) const { return missing_ && missing_->on_cpu(position); }

  // Operations, in this order; what else the layer runs on the experts' stream goes in between.
  void build_on_cpu(std::uint32_t step_tokens, LabelledGraph& out);
  void build(LabelledGraph& out);

  // Of the layer that was built last, by position in the order of add().
  std::size_t size() const { return instance_.experts.size(); }
  std::uint32_t expert(std::size_t position) const { return instance_.experts[position].id; }
  /// kNoOp: it does not execute.
  engine::OpIndex execution(std::size_t position) const { return builder_.execution(position); }
  /// The graph has ended: the execution policy hears how long loads took, as the witness puts it.
  void observe(const LabelledGraph& graph, const LoadWitness& witness) {
    if (missing_) missing_->observe(graph, witness);
  }
  SchedulePolicy& schedule() { return *schedule_; }

 private:
  ServerContext server_;
  std::unique_ptr<SchedulePolicy> schedule_;
  std::unique_ptr<MissingExperts> missing_;  // nullptr: no discrete GPU, or a schedule for its chunks
  LayerGraphBuilder builder_;
  LayerInstance instance_;
  LayerOrder order_;
  std::vector<ExpertReads> reads_;  // by position, as the next two
  std::vector<std::uint32_t> tokens_;
  std::vector<float> scores_;
};

}  // namespace moelab
