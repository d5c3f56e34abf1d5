// How long each GPU of a node computes in a step, layer by layer, with its weights there, and what the GPUs
// exchange. One stands for all where all do the same (tensor parallelism); with expert or data parallelism
// each has times of its own:
//
//   attention  of its own rows (data_parallel), else of all
//   experts    those that it has, for the rows of all GPUs: distinct ones touched, and pairs of row and
//              expert, as the step is routed
//
// A GPU without requests runs along with one row of no context, as vLLM's dummy batch does; which experts
// that row would choose is not known, so it has none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/step_experts.hpp"

namespace moelab {

class RoutingTrace;
struct Scenario;
struct ServingCounts;
struct SystemConfig;

/// What all GPUs do together.
struct Collective {
  OpKind kind = OpKind::all_reduce;
  double seconds = 0;     // 0: there is none
  double link_bytes = 0;  // that each GPU takes in
};

class GpuTimes {
 public:
  /// Everything by reference outlives it.
  GpuTimes(const Scenario& scenario, const SystemConfig& system, const TimingModel& timing,
           const RoutingTrace& trace);

  void begin(const Pass& pass);
  /// The layer runs other experts than the trace says: `uses` of its rows.
  void reroute(const Pass& pass, std::size_t layer, std::span<const ExpertUse> uses);
  std::size_t gpus() const { return gpus_; }
  /// Attention with the gate and, in a dense layer, its feed-forward part.
  const KernelTime& dense(std::size_t gpu, std::size_t layer) { return dense_of(gpu).dense(layer); }
  /// Of a layer with experts, the shared ones included.
  const KernelTime& experts(std::size_t gpu, std::size_t layer) const { return experts_[layer][gpu].time; }
  /// What the shared ones of it do, on one GPU.
  KernelWork shared_work(std::size_t layer) {
    const KernelTime& shared = dense_of(0).shared(layer);
    return {shared.bytes, shared.flops, shared.kernels};
  }
  /// What the host takes when they have run.
  double gathering_s(std::size_t gpu, std::size_t layer) const { return experts_[layer][gpu].gathering_s; }
  /// Pairs of row and expert that the GPU computes, of a layer with experts.
  double pairs(std::size_t gpu, std::size_t layer) const { return experts_[layer][gpu].pairs; }
  /// Adds what the step has of pairs and exchanges.
  void count(ServingCounts& counts) const;
  KernelTime head(std::size_t gpu) const;
  /// Behind each part of a layer that tensor parallelism divides.
  const Collective& all_reduce() const { return all_reduce_; }
  // Around the experts of each layer, with data parallelism.
  const Collective& dispatch() const { return dispatch_; }
  const Collective& combine() const { return combine_; }
  /// The whole step with the host's part and all exchanges, each GPU waiting for the slowest.
  double step_seconds() const { return step_s_; }

 private:
  struct Experts {
    KernelTime time;
    double gathering_s = 0, pairs = 0;
  };
  DenseTimes& dense_of(std::size_t gpu) { return dense_[dense_.size() > 1 ? gpu : 0]; }
  void begin_rows(const Pass& pass);
  void begin_exchanges(const Pass& pass);
  Experts experts_of(std::size_t gpu, const Pass& pass, std::size_t layer);
  double layer_seconds(std::size_t layer);
  template <class Amount>
  double most(Amount amount) const;

  const Scenario& scenario_;
  const SystemConfig& system_;
  const TimingModel& timing_;
  std::size_t gpus_;
  std::vector<std::int32_t> moe_numbers_;      // by model layer; -1: dense
  std::vector<DenseTimes> dense_;              // one for all GPUs, or by GPU where each has rows of its own
  std::vector<std::vector<Experts>> experts_;  // by model layer and GPU
  double expert_bytes_;                        // of one; 0 where the model has none
  bool divided_;                               // GPUs divide the experts
  StepExperts step_experts_;
  Collective all_reduce_, dispatch_, combine_;
  double step_s_ = 0;
};

}  // namespace moelab
