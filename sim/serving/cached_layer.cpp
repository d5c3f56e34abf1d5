// One layer of the cached stage: its dense part, who is used, where they are, the graph that makes them ready
// and runs them, and what is to be remembered of that.
#include <algorithm>

#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/cached_stage.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/graph_observer.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

using engine::OpIndex;

void CachedStage::add_kernel(LabelledGraph& out, engine::ResourceId stream, const KernelTime& time,
                             OpKind kind) const {
  const OpIndex op = out.graph.add(out.graph.lane(stream), time.seconds);
  const double kernel_s = std::max(0.0, time.seconds - timing_.dispatch().value());
  resources_.share(out.graph, op, resources_.computes_on_cpu, kernel_s, time.bytes);
  out.labels.push_back({kind});
  out.kernel = {time.bytes, time.flops, time.kernels};
}

LabelledGraph* CachedStage::start_drafts() {
  const KernelTime time = draft_times_->time(pass_);
  if (time.seconds == 0) return nullptr;
  dense_.clear();
  add_kernel(dense_, resources_.dense, time, OpKind::draft);
  engine_.submit(dense_.graph, engine::kDemand);
  return &dense_;
}

LabelledGraph* CachedStage::start_dense() {
  if (skip_dense(dense_times_.dense(model_layer_).seconds)) return nullptr;
  submit_dense(model_layer_);
  return &dense_;
}

LabelledGraph* CachedStage::start_experts() {
  route(moe_layer_);
  prefetch(moe_layer_);
  gather_experts(moe_layer_);
  const KernelTime& shared = dense_times_.shared(model_layer_);
  if (skip_experts(shared.seconds)) return nullptr;
  submit_experts(moe_layer_, shared);
  return &layer_;
}

// What the framework does with each expert's output when all are there.
LabelledGraph* CachedStage::start_gathering() {
  dense_.clear();
  const auto experts = static_cast<double>(uses_.size());
  if (add_host(experts * system_.host_per_expert) == engine::kNoOp) return nullptr;
  engine_.submit(dense_.graph, engine::kDemand);
  return &dense_;
}

LabelledGraph* CachedStage::start_all_reduce() {
  LabelledGraph* const reduce = all_reduces_.after_experts();
  if (reduce != nullptr) engine_.submit(reduce->graph, engine::kDemand);
  return reduce;
}

// It was submitted when the layer's gate was known; the next layer's dense part has the same GPU.
LabelledGraph* CachedStage::start_wait_for_prediction() {
  waits_since_ = engine_.now();
  return predicts_ ? &prediction_ : nullptr;
}

LabelledGraph* CachedStage::start_wait_for_fetch() {
  ending_fetch_ = prefetcher_->on_its_way();
  if (ending_fetch_ != nullptr) return &ending_fetch_->load;
  prefetcher_->end();
  return nullptr;
}

// The framework's cost, in dense_. kNoOp: none.
OpIndex CachedStage::add_host(Seconds time) {
  if (!(time.value() > 0)) return engine::kNoOp;
  const OpIndex host = dense_.graph.add(dense_.graph.lane(resources_.host), time.value());
  dense_.labels.push_back({OpKind::host});
  return host;
}

// Dense part: host overhead, then attention (with the gate) and, in a dense layer, its feed-forward part;
// what several GPUs share of that they sum up.
void CachedStage::submit_dense(std::size_t layer) {
  dense_.clear();
  add_kernel(dense_, resources_.dense, dense_times_.dense(layer), OpKind::dense);
  if (const OpIndex host = add_host(system_.host_per_layer); host != engine::kNoOp)
    dense_.graph.depend(0, host);
  all_reduces_.add_of_dense(scenario_.model.layers[layer], dense_, 0);
  engine_.submit(dense_.graph, engine::kDemand);
}

// End of a pass: the output embedding for the rows whose next token is wanted, and the framework's cost a
// pass.
void CachedStage::submit_head() {
  dense_.clear();
  const KernelTime time = dense_times_.head();
  if (time.seconds > 0) add_kernel(dense_, resources_.dense, time, OpKind::dense);
  const OpIndex host = add_host(system_.host_per_pass);
  if (host != engine::kNoOp && host > 0) dense_.graph.depend(host, 0);
  engine_.submit(dense_.graph, engine::kDemand);
}

// Whether no observer would see the graph run, and nothing come in between: then its outcome is as good.
bool CachedStage::may_skip() const {
  return state_.observer == nullptr && engine_.alone();
}

// What submit_dense() comes to, unless there is more to it than one operation. One alone takes its time to
// the last digit even where it shares a capacity: its hand-over and the rest add up exactly (Sterbenz'
// lemma), and alone it is not slowed down.
bool CachedStage::skip_dense(double seconds) {
  if (system_.host_per_layer.value() > 0 || all_reduces_.any() || !may_skip()) return false;
  if (engine_.is_free(resources_.dense)) seconds = 0;
  dense_outcome_.time.seconds = seconds;
  dense_outcome_.time.busy.front().seconds = seconds;
  dense_outcome_.stall_s[static_cast<std::size_t>(Cause::dense_compute)] = seconds;
  engine_.skip(dense_outcome_.time);
  add(dense_outcome_);
  return true;
}

bool CachedStage::skip_experts(double shared_s) {
  // What the link and the CPU do depends on more than the states of experts.
  remember_ = may_skip() && !supply_.chooses();
  if (!remember_) return false;
  const StepOutcome* const known = memo_.find(codes_, shared_s);
  if (known == nullptr) return false;
  engine_.skip(known->time);
  add(*known);
  return true;
}

void CachedStage::route(std::uint32_t moe_layer) {
  if (gates_) gates_->read(pass_, moe_layer);
  if (routing_)
    substitute(moe_layer);
  else
    uses_ = layer_uses_.collect(trace_, pass_, moe_layer);
  cache_.begin_step(pass_, moe_layer, gates_ ? gates_->summed() : std::span<const float>());
}

// The routing policy's choice takes the place of the model's.
void CachedStage::substitute(std::uint32_t moe_layer) {
  if (prefetcher_) prefetcher_->before_routing(moe_layer);
  cache_.find_kept(moe_layer, resident_);
  if (prefetcher_) prefetcher_->add_waiting(moe_layer, resident_);
  routing_->route(gates_->tokens(), resident_, step_routing_);
  uses_ = layer_uses_.collect(gates_->tokens(), step_routing_);
  if (pass_.prompt) return;
  RoutingCounts& counts = metrics_.routing;
  for (const TokenRouting& token : step_routing_.tokens) {
    counts.active += token.top_score + token.low_score;
    counts.top_score += token.top_score;
    counts.low_score += token.low_score;
    counts.substituted += token.substituted;
    counts.mass_moved += token.mass_moved;
  }
  for (const TokenGate& token : gates_->tokens())
    for (const std::uint16_t expert : token.chosen) counts.score_sum += token.scores[expert];
}

void CachedStage::prefetch(std::uint32_t moe_layer) {
  predicts_ = prefetcher_ && prefetcher_->predicts(moe_layer);
  if (predicts_) submit_prediction(moe_layer);
  if (prefetcher_) prefetcher_->after_gate(moe_layer, pass_, uses_, predicts_ ? &prediction_.graph : nullptr);
}

// Behind the experts that are on the GPU already, ahead of those that have to be loaded first.
void CachedStage::submit_prediction(std::uint32_t moe_layer) {
  prediction_.clear();
  const auto next = static_cast<std::size_t>(moe_layers_[moe_layer + 1]);
  add_kernel(prediction_, resources_.experts, dense_times_.dense(next), OpKind::predict);
  all_reduces_.add_of_dense(scenario_.model.layers[next], prediction_, 0);
  engine_.submit(prediction_.graph, engine::kPrefetch);
}

void CachedStage::add(const StepOutcome& outcome) {
  metrics_.add_stalls(outcome.stall_s, pass_.prompt);
  for (std::size_t i = 0; i < kTiers; ++i) metrics_.bytes[i] += outcome.bytes[i];
}

// Seconds of the experts for so many tokens as were not asked for yet.
void CachedStage::compute_expert_seconds(std::uint32_t tokens) {
  for (std::size_t n = expert_seconds_.size(); n <= tokens; ++n)
    expert_seconds_.push_back(
        timing_.expert(scenario_.model, scenario_.model.moe(), static_cast<double>(n), false).value());
}

// The experts that the layer needs, and where they are.
void CachedStage::gather_experts(std::uint32_t moe_layer) {
  supply_.clear();
  codes_.clear();
  awaited_.clear();
  for (const ExpertUse& use : uses_) add_demand(moe_layer, use);
  if (system_.fetch_whole_layer) {
    auto used = uses_.begin();
    for (std::uint32_t e = 0; e < experts_; ++e) {
      if (used != uses_.end() && used->object == e)
        ++used;
      else
        add_demand(moe_layer, {.object = e, .tokens = 0});
    }
  }
  supply_.plan(pass_.tokens);
  if (pass_.prompt) return;
  metrics_.execution.loaded += supply_.loaded();
  metrics_.execution.on_cpu += supply_.left_to_cpu();
}

// Adds an expert to the layer's instance: one of its uses, or, of no tokens, one that is only made ready.
void CachedStage::add_demand(std::uint32_t moe_layer, const ExpertUse& use) {
  const std::uint32_t expert = use.object;
  const bool executes = use.tokens > 0, low_score = routing_ && layer_uses_.low_score(expert);
  const State kept = cache_.state(moe_layer, expert);
  Prefetcher::Met met{kept, kept};
  if (prefetcher_)
    met = prefetcher_->meet(moe_layer, expert, kept,
                            {.executes = executes, .top_score = routing_ && !low_score});
  if (met.fetch != nullptr) awaited_.push_back({supply_.size(), met.fetch});
  const ExpertReads reads = cache_.plan_reads(moe_layer, expert, met.held);
  if (options_.mirror != nullptr) options_.mirror->use({moe_layer, expert});
  codes_.push_back(LayerMemo::code(reads, met.held, use.tokens, low_score));
  supply_.add(expert, met.held, reads, use.tokens, use.score, executes ? expert_seconds(use.tokens) : 0);
  if (executes) count_use(moe_layer, expert, met.found);
}

void CachedStage::count_use(std::uint32_t moe_layer, std::uint32_t expert, State found) {
  metrics_.count_hit(found, moe_layer, pass_.prompt);
  if (pass_.prompt || !routing_ || found == State::F) return;
  ++(layer_uses_.low_score(expert) ? metrics_.routing.low_score_misses : metrics_.routing.top_score_misses);
}

void CachedStage::submit_experts(std::uint32_t moe_layer, const KernelTime& shared) {
  layer_.clear();
  layer_.layer = moe_layer;
  supply_.build_on_cpu(pass_.tokens, layer_);
  if (shared.seconds > 0)  // first on the experts' stream: there is one GPU, and it has one memory
    add_kernel(layer_, resources_.experts, shared, OpKind::shared_expert);
  supply_.build(layer_);
  if (routing_)
    for (OpLabel& label : layer_.labels) label.low_score = layer_uses_.low_score(label.expert);
  add_waits();
  engine_.submit(layer_.graph, engine::kDemand);
}

// Experts that are on their way execute when they are there.
void CachedStage::add_waits() {
  waits_.clear();
  for (const auto& [position, fetch] : awaited_) {
    OpIndex op = supply_.execution(position);
    if (op == engine::kNoOp) {  // wanted only as part of the layer: the layer still ends with it
      op = layer_.graph.add(layer_.graph.lane(resources_.host), 0);
      layer_.labels.push_back({OpKind::wait, Tier::none, 0, 0, supply_.expert(position)});
    }
    layer_.graph.depend_on(op, *fetch);
    waits_.push_back({op, fetch});
  }
}

void CachedStage::finish_layer(std::uint32_t moe_layer) {
  on_gpu_.clear();
  for (std::size_t position = 0; position < uses_.size(); ++position) {
    if (supply_.on_cpu(position)) continue;  // it has not been on the GPU
    const ExpertUse& use = uses_[position];
    if (prefetcher_) prefetcher_->used(moe_layer, use.object);
    on_gpu_.push_back(use);
  }
  cache_.end_step(moe_layer, on_gpu_, !uses_.empty());
  if (options_.mirror != nullptr)
    for (std::size_t position = 0; position < supply_.size(); ++position)
      options_.mirror->release({moe_layer, supply_.expert(position)});
  if (prefetcher_) prefetcher_->after_layer(moe_layer);
}

void CachedStage::account_experts() {
  StepOutcome outcome;
  outcome.stall_s = critical_path(layer_, waits_);
  outcome.bytes = bytes_read(layer_);
  add(outcome);
  supply_.observe(layer_, options_.witness);
  if (remember_) {
    outcome.time = layer_.graph.outcome();
    memo_.keep(outcome);
  }
  state_.show(layer_, static_cast<std::int32_t>(model_layer_));
}

}  // namespace moelab
