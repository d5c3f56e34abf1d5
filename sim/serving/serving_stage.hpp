// What a server does with the layers of a step: makes their experts ready and computes them. Members:
//
//   cached    expert by expert, from a cache and what is behind it       (cached_stage.hpp)
//   windowed  layer by layer, through a window beside the KV cache       (windowed_stage.hpp)
//   called    where the experts are, on several servers                  (sim/cluster/called_stage.hpp)
#pragma once

#include <cstddef>
#include <cstdint>

#include "policies/batching/batching.hpp"
#include "sim/engine/graph.hpp"
#include "sim/serving/kv_swap.hpp"

namespace moelab {

/// What a stage waits for before it goes on.
struct StageWait {
  engine::Graph* graph = nullptr;
  double until = -1;  // seconds of engine time, where there is no graph; negative: nothing

  explicit operator bool() const { return graph != nullptr || until >= 0; }
};

class ServingStage {
 public:
  virtual ~ServingStage() = default;

  /// Between two steps, before the next one is formed.
  virtual void between_steps() {}
  /// A step was formed (ServerState::pass).
  virtual void begin_step() = 0;
  // What comes next: tokens are drafted that the step verifies, where that takes time; a layer of the step,
  // its end (the output embedding), or, when all is served, what is still on its way. Each submits what it
  // begins with and says what it waits for; nothing: it is over.
  virtual StageWait begin_drafting() { return {}; }
  virtual StageWait begin_layer(std::size_t layer) = 0;
  virtual StageWait begin_head() = 0;
  virtual StageWait begin_end() { return {}; }
  /// What it waited for has come: counts that, submits what is next and says what that waits for.
  virtual StageWait next() = 0;
  /// The step has run, with `use` of the KV cache.
  virtual void end_step(const KvUse& /*use*/) {}

  // Of a KV cache in blocks.
  /// How many there are in this step, of all GPUs that have requests of their own together.
  virtual std::uint64_t kv_blocks() const { return 0; }
  virtual SwapPath swap_path(std::size_t /*gpu*/) const { return {}; }
  /// That are simulated: one that stands for all, or each.
  virtual std::size_t gpus() const { return 1; }
  /// Share of the experts that takes GPU memory.
  virtual double resident_share() const { return 0; }
  virtual const TimingModel& timing() const = 0;

  // Of a server that may leave its cluster.
  /// It has left since the step began: what it computed is lost, and so is the step.
  virtual bool lost() const { return false; }
  /// What a server that has left waits for before it is asked again, its requests under way given up.
  /// Nothing: it is back, or, while lost(), it has left for good.
  virtual StageWait away() { return {}; }
};

}  // namespace moelab
