#include "sim/serving/all_reduces.hpp"

#include <string>

#include "models/tensor_parallel.hpp"
#include "sim/scenario.hpp"

namespace moelab {

using engine::OpIndex;

AllReduces::AllReduces(const Scenario& scenario, const TimingModel& timing, engine::Engine& engine,
                       std::string_view prefix)
    : scenario_(scenario), timing_(timing) {
  if (scenario.tensor_parallel > 1) collective_ = engine.add_resource(std::string(prefix) + "collective", 1);
}

void AllReduces::begin(const Pass& pass) {
  const auto ranks = static_cast<int>(scenario_.tensor_parallel);
  bytes_ = all_reduce_bytes(scenario_.model, pass.tokens);
  seconds_ = ranks == 1 ? 0 : timing_.all_reduce(ranks, bytes_).value();
}

void AllReduces::add(LabelledGraph& out, OpIndex after) const {
  const OpIndex op = out.graph.add(out.graph.lane(collective_), seconds_);
  out.labels.push_back({.kind = OpKind::all_reduce, .bytes = bytes_.value()});
  if (after != engine::kNoOp) out.graph.depend(op, after);
}

void AllReduces::add_of_dense(const Layer& layer, LabelledGraph& out, OpIndex after) const {
  if (!any()) return;
  const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
  for (int left = all_reduces(layer) - (moe ? 1 : 0); left > 0; --left) {
    add(out, after);
    after = static_cast<OpIndex>(out.graph.size() - 1);
  }
}

LabelledGraph* AllReduces::after_experts() {
  if (!any()) return nullptr;
  graph_.clear();
  add(graph_, engine::kNoOp);
  return &graph_;
}

}  // namespace moelab
