#include "sim/serving/windowed_stage.hpp"

#include <algorithm>
#include <bit>

#include "models/tensor_parallel.hpp"
#include "sim/engine/invariant.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

using engine::OpIndex;

namespace {

/// Blocks that the longest request holds at its end.
std::uint64_t largest_request(const KvShape& shape, const std::vector<ServedRequest>& requests) {
  std::uint64_t tokens = 0;
  for (const ServedRequest& q : requests) tokens = std::max(tokens, final_tokens(batch_request(q)));
  return request_blocks(tokens, shape);
}

}  // namespace

WindowedStage::WindowedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                             const RoutingTrace& trace, const PagedPlan& plan,
                             const std::vector<ServedRequest>& requests)
    : state_(state),
      engine_(state.engine),
      scenario_(scenario),
      system_(system),
      trace_(trace),
      plan_(plan),
      timing_(scenario.device),
      dense_times_(scenario.model, timing_),
      resources_(add_paged_resources(engine_, timing_, plan)),
      residency_(engine_, resources_, timing_, plan, system, static_cast<int>(scenario.tensor_parallel),
                 largest_request(kv_shape(system, plan.memory), requests), state.observer),
      window_(engine_, resources_, timing_, plan, scenario.model.moe().matrices,
              static_cast<int>(scenario.tensor_parallel)),
      moe_numbers_(scenario.model.moe_numbers()),
      experts_times_(scenario.model.layers.size()),
      gathering_s_(scenario.model.layers.size()),
      pass_(state.pass),
      metrics_(state.metrics),
      touched_((trace.experts() + 63) / 64) {
  metrics_.layers = LayerCounts(scenario.model.moe_layers().size());
}

void WindowedStage::between_steps() {
  residency_.adjust(state_.steps, compute_s_, *state_.batching, metrics_.serving);
}

StageWait WindowedStage::begin_layer(std::size_t layer) {
  model_layer_ = static_cast<std::int32_t>(layer);
  load_ahead(layer);
  submit_layer(layer);
  return {&layer_.graph};
}

StageWait WindowedStage::begin_head() {
  model_layer_ = -1;
  submit_head();
  return {&layer_.graph};
}

StageWait WindowedStage::begin_end() {
  const ServingCounts& c = metrics_.serving;
  metrics_.bytes[static_cast<std::size_t>(Tier::ssd)] = c.ssd_bytes;
  metrics_.bytes[static_cast<std::size_t>(Tier::host)] = c.loaded_bytes + c.promoted_bytes - c.ssd_bytes;
  return cancel_load();
}

// What comes for a step that never is.
StageWait WindowedStage::cancel_load() {
  ending_load_ = window_.any();
  if (ending_load_ == nullptr) return {};
  engine_.cancel(ending_load_->graph);
  return {&ending_load_->graph};
}

StageWait WindowedStage::next() {
  if (ending_load_ != nullptr) {
    window_.drop(*ending_load_);
    return cancel_load();
  }
  state_.account(layer_, model_layer_, waits_);
  if (model_layer_ >= 0) finish_layer();
  return {};
}

// How long each layer computes with its weights there.
void WindowedStage::begin_step() {
  engine::check_invariant(has_room(plan_.memory, scenario_, pass_), "a step's rows fit into what is planned");
  dense_times_.begin(pass_);
  const Bytes reduced = all_reduce_bytes(scenario_.model, pass_.tokens);
  all_reduce_s_ = timing_.all_reduce(static_cast<int>(scenario_.tensor_parallel), reduced).value();
  compute_s_ = dense_times_.head().seconds + system_.host_per_pass.value();
  for (std::size_t layer = 0; layer < moe_numbers_.size(); ++layer) {
    experts_times_[layer] = experts_time(layer);
    compute_s_ += system_.host_per_layer.value() + gathering_s_[layer] + dense_times_.dense(layer).seconds +
                  experts_times_[layer].seconds + all_reduces(scenario_.model.layers[layer]) * all_reduce_s_;
  }
}

// While a layer runs, the experts of the next MoE layer come into the other half of the window.
void WindowedStage::load_ahead(std::size_t layer) {
  const auto load = [this](std::uint32_t moe_layer) {
    if (window_.streams(residency_.split(), moe_layer) && !window_.holds(moe_layer))
      window_.load(residency_.split(), moe_layer, metrics_.serving);
  };
  if (moe_numbers_[layer] >= 0) load(static_cast<std::uint32_t>(moe_numbers_[layer]));
  const std::size_t layers = moe_numbers_.size();
  std::size_t next = (layer + 1) % layers;
  while (moe_numbers_[next] < 0) next = (next + 1) % layers;
  if (next != layer) load(static_cast<std::uint32_t>(moe_numbers_[next]));
}

OpIndex WindowedStage::add_kernel(const KernelTime& time, OpKind kind, OpIndex after) {
  engine::Graph& graph = layer_.graph;
  const OpIndex op = graph.add(graph.lane(resources_.compute), time.seconds);
  if (resources_.memory != engine::kNoCapacity) {
    const double streaming = time.bytes / timing_.gpu_bandwidth().value();
    graph.share(op, resources_.memory, std::min(streaming, time.seconds), time.bytes);
  }
  layer_.labels.push_back({kind});
  if (after != engine::kNoOp) graph.depend(op, after);
  return op;
}

OpIndex WindowedStage::add_all_reduce(OpIndex after) {
  if (all_reduce_s_ == 0) return after;
  engine::Graph& graph = layer_.graph;
  const OpIndex op = graph.add(graph.lane(resources_.collective), all_reduce_s_);
  const auto ranks = static_cast<int>(scenario_.tensor_parallel);
  const double bytes = ring_bytes(ranks, all_reduce_bytes(scenario_.model, pass_.tokens).value());
  if (resources_.link != engine::kNoCapacity) graph.share(op, resources_.link, all_reduce_s_, bytes);
  layer_.labels.push_back({OpKind::all_reduce});
  graph.depend(op, after);
  return op;
}

OpIndex WindowedStage::add_host(double seconds, OpIndex after) {
  if (seconds == 0) return after;
  const OpIndex op = layer_.graph.add(layer_.graph.lane(resources_.host), seconds);
  layer_.labels.push_back({OpKind::host});
  if (after != engine::kNoOp) layer_.graph.depend(op, after);
  return op;
}

void WindowedStage::submit_layer(std::size_t layer) {
  layer_.clear();
  waits_.clear();
  OpIndex last = add_host(system_.host_per_layer.value(), engine::kNoOp);
  last = add_kernel(dense_times_.dense(layer), OpKind::dense, last);
  for (int extra = all_reduces(scenario_.model.layers[layer]); extra > 1; --extra)
    last = add_all_reduce(last);
  experts_op_ = engine::kNoOp;
  if (moe_numbers_[layer] >= 0) {
    const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[layer]);
    layer_.layer = moe_layer;
    last = experts_op_ = add_kernel(experts_times_[layer], OpKind::grouped_experts, last);
    if (window_.holds(moe_layer)) {
      engine::Graph& load = window_.loading(moe_layer).graph;
      engine_.set_priority(load, engine::kDemand);
      layer_.graph.depend_on(experts_op_, load);
      waits_.push_back({experts_op_, &load});
    }
    last = add_host(gathering_s_[layer], last);
  }
  add_all_reduce(last);
  engine_.submit(layer_.graph, engine::kDemand);
}

// Distinct routed experts that the step touches in a layer.
std::uint32_t WindowedStage::distinct_experts(std::uint32_t moe_layer) {
  std::fill(touched_.begin(), touched_.end(), 0);
  for (const auto& [begin, end] : pass_.rows)
    for (std::uint64_t row = begin; row < end; ++row)
      for (const std::uint16_t expert : trace_.experts_of(row, moe_layer))
        if (expert != kNoExpert) touched_[expert >> 6] |= std::uint64_t{1} << (expert & 63);
  std::uint32_t distinct = 0;
  for (const std::uint64_t word : touched_) distinct += static_cast<std::uint32_t>(std::popcount(word));
  return distinct;
}

KernelTime WindowedStage::experts_time(std::size_t layer) {
  if (moe_numbers_[layer] < 0) return {};
  const FeedForward& ff = scenario_.model.layers[layer].feed_forward;
  const std::uint32_t distinct = distinct_experts(static_cast<std::uint32_t>(moe_numbers_[layer]));
  const double activations = 1.0 * pass_.tokens * ff.top_k;
  gathering_s_[layer] = distinct * system_.host_per_expert.value();
  KernelTime time = dense_times_.shared(layer);
  time.seconds +=
      (timing_.grouped_experts(scenario_.model, distinct, activations) + timing_.dispatch()).value();
  time.bytes += distinct * expert_bytes(scenario_.model).value();
  return time;
}

void WindowedStage::finish_layer() {
  const std::int32_t number = moe_numbers_[static_cast<std::size_t>(model_layer_)];
  if (number < 0) return;
  const auto moe_layer = static_cast<std::uint32_t>(number);
  if (!window_.holds(moe_layer)) return;
  state_.show(window_.loading(moe_layer), model_layer_);
  window_.release(moe_layer, layer_.graph.start(experts_op_), layer_.graph.end(experts_op_));
}

void WindowedStage::submit_head() {
  layer_.clear();
  waits_.clear();
  OpIndex last = engine::kNoOp;
  if (const KernelTime head = dense_times_.head(); head.seconds > 0)
    last = add_kernel(head, OpKind::dense, last);
  add_host(system_.host_per_pass.value(), last);
  engine_.submit(layer_.graph, engine::kDemand);
}

void WindowedStage::end_step(const KvUse& use) {
  if (state_.observer == nullptr) return;
  const double kv_bytes = static_cast<double>(use.gpu_blocks) * plan_.memory.kv_block.value();
  state_.observer->holds(engine_.now(), {{}, residency_.split().gpu_bytes(), kv_bytes});
}

}  // namespace moelab
