// The experts of a layer that are not in the memory of a discrete GPU: the execution policy leaves each to
// the link or to the CPU; here that becomes orders and operations.
//
//   send (activations to the host) -> CPU expert, CPU expert .. -> receive (what they made of them)
//   load -> execution on the GPU, load -> execution ..
//
// The activations of all the CPU's experts travel together, once each way. What comes back goes before the
// loads that still wait for the link.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/architecture.hpp"
#include "policies/execution/execution.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/serving/load_witness.hpp"

namespace moelab {

class TimingModel;
struct ExpertCosts;
struct SystemConfig;

class MissingExperts {
 public:
  /// Everything by reference outlives it. Precondition: timing.is_discrete(). `ranks`: GPUs that share each
  /// layer, of which `model` is one's part; what the CPU computes, it computes for all of them.
  MissingExperts(const Architecture& model, const TimingModel& timing, const SystemConfig& system,
                 const ExpertCosts& costs, const ServerResources& resources, int ranks);

  /// Plans a layer step. Of `instance`, experts in state M with tokens are missing; those that the CPU gets
  /// lose their state M and their tokens, so that nothing is loaded or executed for them on the GPU.
  /// `tokens` and `scores` by position in the instance. `step_tokens`: that run through the layer. Fills
  /// `order`.
  void plan(LayerInstance& instance, std::uint32_t step_tokens, std::span<std::uint32_t> tokens,
            std::span<const float> scores, LayerOrder& order);
  /// Whether the expert at a position of the last plan's instance is the CPU's.
  bool on_cpu(std::size_t position) const { return on_cpu_[position] != 0; }
  std::uint64_t left_to_cpu() const { return cpu_.size(); }
  std::uint64_t loaded() const { return plan_.loads.size(); }

  /// Adds the CPU's part of the last plan to a graph, before everything else that uses the link.
  /// `step_tokens`: rows whose activations travel, at most. `reads` by position in the instance: what the
  /// host's memory does not hold is read first.
  void build(std::uint32_t step_tokens, std::span<const ExpertReads> reads, LabelledGraph& out);
  /// Tells the policy how long the loads of a finished graph took, as the witness puts it.
  void observe(const LabelledGraph& graph, const LoadWitness& witness);

 private:
  struct CpuExpert {
    std::uint32_t id, tokens, position;
  };
  void await_reads(const CpuExpert& expert, engine::OpIndex execution, LabelledGraph& out) const;
  double cpu_seconds(std::uint32_t tokens);
  void add_loads(std::uint32_t position, LayerOrder& order) const;
  engine::OpIndex add(LabelledGraph& out, engine::ResourceId resource, double seconds, OpLabel label) const;

  const Architecture& model_;
  FeedForward on_cpu_whole_;  // what the CPU computes of an expert
  const TimingModel& timing_;
  const ExpertCosts& costs_;
  ServerResources resources_;
  double cpu_traffic_;  // bytes of an expert through the host's memory
  bool needs_cpu_;
  std::unique_ptr<ExecutionPolicy> policy_;
  double gpu_s_;
  std::vector<double> cpu_s_;  // by tokens, as far as known
  std::vector<MissingExpert> missing_;
  std::vector<std::uint32_t> positions_;  // by place in missing_
  std::vector<std::uint8_t> on_cpu_;      // by position in the instance
  std::vector<CpuExpert> cpu_;            // in the order in which the CPU computes them
  ExecutionPlan plan_;
};

}  // namespace moelab
