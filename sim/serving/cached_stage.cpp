#include "sim/serving/cached_stage.hpp"

#include <algorithm>

#include "policies/guard/guarded_policies.hpp"
#include "sim/engine/expert_mirror.hpp"
#include "sim/engine/invariant.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/memory_plan.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

namespace {

bool wants_scores(const SystemConfig& system) {
  return find_cache_policy(system.cache.name)->needs_scores ||
         find_execution_policy(system.execution.name)->needs_scores;
}

}  // namespace

CachedStage::CachedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                         const RoutingTrace& trace, const ExpertCosts& costs, const MemoryPlan& memory,
                         const std::array<std::uint32_t, kStates>& pools, CachedStageOptions options)
    : state_(state),
      engine_(state.engine),
      scenario_(scenario),
      system_(system),
      trace_(trace),
      costs_(costs),
      options_(std::move(options)),
      timing_(scenario.device),
      dense_times_(scenario.model, timing_),
      draft_times_(DraftTimes::make(scenario, system, timing_)),
      experts_(trace.experts()),
      moe_numbers_(scenario.model.moe_numbers()),
      moe_layers_(scenario.model.moe_layers()),
      resources_(add_server_resources(engine_, options_.prefix, timing_, costs, memory.experts_on_ssd)),
      all_reduces_(scenario, timing_, engine_, options_.prefix),
      metrics_(state.metrics),
      pass_(state.pass),
      cache_(context(), memory, pools, options_.profile),
      supply_(context(), most_staged_experts(scenario, system)),
      layer_uses_(trace.experts(), wants_scores(system)),
      memory_(memory) {
  dense_outcome_.time = {0, 1, 1, {{{resources_.dense, 0}}}};
  single_expert_s_ = timing_.expert(scenario.model, scenario.model.moe(), 1).value();
  make_policies();
  if (routing_ || cache_.needs_all_scores()) gates_ = std::make_unique<StepGates>(trace);
  metrics_.ttft_s.reserve(trace.requests().size());
  metrics_.end_to_end_s.reserve(trace.requests().size());
  metrics_.requests.reserve(trace.requests().size());
  metrics_.token_gaps_s.reserve(trace.tokens());
  metrics_.layers = LayerCounts(trace.layers());
}

// What learns while it serves.
void CachedStage::make_policies() {
  prefetcher_ = Prefetcher::make(context(), cache_, supply_.schedule());
  if (const auto* routing = find_routing_policy(system_.routing.name); routing->needs_all_scores)
    routing_ = make_routing_policy(*routing, system_.routing.parameters);
}

// For parts that are made when all that it refers to is there.
ServerContext CachedStage::context() {
  return {engine_, scenario_,  system_,  trace_,          costs_,
          timing_, resources_, metrics_, state_.observer, options_.mirror};
}

StageWait CachedStage::begin_drafting() {
  if (!draft_times_) return {};
  part_ = Part::drafts;
  return next();
}

StageWait CachedStage::begin_layer(std::size_t layer) {
  model_layer_ = layer;
  moe_layer_ = static_cast<std::uint32_t>(std::max(moe_numbers_[layer], 0));
  part_ = Part::dense;
  return next();
}

StageWait CachedStage::begin_head() {
  part_ = Part::head;
  return next();
}

// What is still on its way is of no use any more; a read that has begun ends.
StageWait CachedStage::begin_end() {
  if (options_.presence.all != nullptr) --options_.presence.all->serving;
  ended_ = true;
  if (!prefetcher_) return {};
  prefetcher_->cancel_all();
  part_ = Part::fetches;
  return next();
}

StageWait CachedStage::next() {
  while (part_ != Part::over) {
    if (gone_ && part_ != Part::fetches) {
      if (awaited_graph_ != nullptr) count_lost(*awaited_graph_);
      awaited_graph_ = nullptr;
      part_ = Part::over;
      return {};
    }
    if (awaited_graph_ == nullptr) {
      awaited_graph_ = start(part_);
      if (awaited_graph_ != nullptr) return {&awaited_graph_->graph};
    } else {
      count(part_, *awaited_graph_);
      awaited_graph_ = nullptr;
    }
    part_ = after(part_);
  }
  return {};
}

CachedStage::Part CachedStage::after(Part part) const {
  switch (part) {
    case Part::dense:
      return moe_numbers_[model_layer_] < 0 ? Part::over : Part::experts;
    case Part::experts:
      return Part::gathering;
    case Part::gathering:
      return Part::all_reduce;
    case Part::all_reduce:
      return Part::prediction;
    case Part::prediction:
      return Part::layer_end;
    case Part::fetches:
      return ending_fetch_ != nullptr ? Part::fetches : Part::over;
    default:
      return Part::over;
  }
}

// Does what a part begins with. nullptr: it ends with that, else when the graph has ended.
LabelledGraph* CachedStage::start(Part part) {
  switch (part) {
    case Part::drafts:
      return start_drafts();
    case Part::dense:
      return start_dense();
    case Part::experts:
      return start_experts();
    case Part::gathering:
      return start_gathering();
    case Part::all_reduce:
      return start_all_reduce();
    case Part::prediction:
      return start_wait_for_prediction();
    case Part::layer_end:
      finish_layer(moe_layer_);
      show_memory();
      return nullptr;
    case Part::head:
      submit_head();
      return &dense_;
    case Part::fetches:
      return start_wait_for_fetch();
    default:
      return nullptr;
  }
}

void CachedStage::count(Part part, const LabelledGraph& graph) {
  const auto layer = static_cast<std::int32_t>(model_layer_);
  switch (part) {
    case Part::experts:
      return account_experts();
    case Part::prediction:
      metrics_.add_stall(Cause::prediction, engine_.now() - waits_since_, pass_.prompt);
      return state_.show(graph, layer);
    case Part::drafts:
    case Part::head:
      return state_.account(graph, -1);
    case Part::fetches:
      return prefetcher_->drop(*ending_fetch_);
    default:
      return state_.account(graph, layer);
  }
}

// The time of what came to nothing; what had begun to be read was read.
void CachedStage::count_lost(const LabelledGraph& graph) {
  metrics_.add_stall(Cause::recovery, engine_.now() - graph.graph.submitted_at(), pass_.prompt);
  if (part_ != Part::experts) return;
  const std::array<double, kTiers> bytes = bytes_read(graph);
  for (std::size_t i = 0; i < kTiers; ++i) metrics_.bytes[i] += bytes[i];
}

void CachedStage::leave() {
  if (ended_) return cache_.restart();
  gone_ = true;
  if (awaited_graph_ != nullptr) engine_.cancel(awaited_graph_->graph);
  engine_.cancel(prediction_.graph);
  if (prefetcher_) prefetcher_->cancel_all();
}

// Those under way fail; the others wait for the server to come back.
StageWait CachedStage::away() {
  if (!abandoned_) abandon();
  if (prediction_.graph.submitted() && !prediction_.graph.finished()) return {&prediction_.graph};
  if (prefetcher_) {  // a read that has begun ends
    if (part_ == Part::fetches && ending_fetch_ != nullptr) prefetcher_->drop(*ending_fetch_);
    part_ = Part::fetches;
    if (LabelledGraph* const fetch = start_wait_for_fetch(); fetch != nullptr) return {&fetch->graph};
  }
  if (options_.presence.up()) {
    come_back();
    return {};
  }
  if (!options_.presence.may_return()) return {};
  return {nullptr, engine_.now() + options_.presence.look_every_s};
}

void CachedStage::abandon() {
  RequestSource& source = state_.stream->source();
  state_.stream->abandon(state_.metrics);
  state_.serve(source, trace_, make_batching(scenario_, system_, memory_), state_.stream->drafts());
  abandoned_ = true;
}

// As it was at the start.
void CachedStage::come_back() {
  cache_.restart();
  supply_.restart();
  make_policies();
  part_ = Part::over;
  gone_ = abandoned_ = false;
}

void CachedStage::begin_step() {
  kv_tokens_ -= kv_refused_;
  if (state_.stream->begins()) {
    kv_tokens_ = kv_encoded_ = 0;
    cache_.begin_request();
    if (prefetcher_) prefetcher_->begin_request();
  }
  if (prefetcher_) prefetcher_->begin_pass(state_.step());
  if (pass_.stack == Stack::decoder) kv_tokens_ += pass_.tokens;
  kv_refused_ = pass_.refused;
  kv_encoded_ += pass_.new_encoder_tokens;
  (scenario_.model.has_encoder() ? kv_encoded_ : kv_tokens_) += pass_.brought_tokens;
  engine::check_invariant(has_room(memory_, scenario_, pass_), "a step's rows fit into what is planned");
  engine::check_invariant(memory_.kv_blocks > 0 || kept_bytes() <= memory_.kv_cache * (1 + 1e-9),
                          "keys and values fit into what is planned");
  show_memory();
  dense_times_.begin(pass_);
  all_reduces_.begin(pass_);
}

std::uint64_t CachedStage::kv_blocks() const {
  return memory_.kv_blocks;
}

// Experts that the cache keeps whole, as a share of all.
double CachedStage::resident_share() const {
  return static_cast<double>(cache_.whole_experts()) / (1.0 * experts_ * trace_.layers());
}

// Keys and values of the static batch that runs.
Bytes CachedStage::kept_bytes() const {
  return kv_tokens_ * kv_bytes_per_token(scenario_) + kv_encoded_ * cross_kv_bytes_per_token(scenario_.model);
}

void CachedStage::show_memory() const {
  if (state_.observer == nullptr || !state_.observer->wants_memory()) return;
  MemoryContents memory;
  cache_.count(memory);
  memory.kv_bytes = memory_.kv_blocks > 0
                        ? static_cast<double>(state_.batching->use().gpu_blocks) * memory_.kv_block.value()
                        : kept_bytes().value();
  state_.observer->holds(engine_.now(), memory);
}

}  // namespace moelab
