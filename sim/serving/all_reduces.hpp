// What GPUs that share each layer (tensor parallelism) sum up: the hidden states, behind attention and behind
// the feed-forward part. All of them do the same at the same time, so that one stands for all.
#pragma once

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/pass.hpp"

namespace moelab {

struct Scenario;

class AllReduces {
 public:
  /// Everything by reference outlives it. Adds the resource "collective" where several GPUs share the model.
  AllReduces(const Scenario& scenario, const TimingModel& timing, engine::Engine& engine,
             std::string_view prefix);

  /// Whether there are any in the pass that runs.
  bool any() const { return seconds_ > 0; }
  void begin(const Pass& pass);
  /// Those of a layer's dense part, behind operation `after`: a layer with experts has one more behind them.
  void add_of_dense(const Layer& layer, LabelledGraph& out, engine::OpIndex after) const;
  /// The one behind a layer's experts; nullptr: there is none.
  LabelledGraph* after_experts();

 private:
  void add(LabelledGraph& out, engine::OpIndex after) const;

  const Scenario& scenario_;
  const TimingModel& timing_;
  engine::ResourceId collective_ = 0;
  Bytes bytes_;         // of one, in the pass that runs
  double seconds_ = 0;  // likewise
  LabelledGraph graph_;
};

}  // namespace moelab
