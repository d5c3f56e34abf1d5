// One layer of the serving loop: its dense part, who is used, where they are, the graph that makes them ready
// and runs them, and what is to be remembered of that.
#include "sim/serving/server.hpp"

namespace moelab {

using engine::OpIndex;

OpIndex Server::add_kernel(LabelledGraph& out, engine::ResourceId stream, const KernelTime& time,
                           OpKind kind) const {
  const OpIndex op = out.graph.add(out.graph.lane(stream), time.seconds);
  const double kernel_s = time.seconds - timing_.dispatch().value();
  resources_.share(out.graph, op, resources_.computes_on_cpu, kernel_s, time.bytes);
  out.labels.push_back({kind});
  out.kernel = {time.bytes, time.flops};
  return op;
}

// Dense part: host overhead, then attention (with the gate) and, in a dense layer, its feed-forward part.
void Server::submit_dense(const KernelTime& time) {
  dense_.clear();
  const OpIndex op = add_kernel(dense_, resources_.dense, time, OpKind::dense);
  if (system_.host_per_layer.value() > 0) {
    const OpIndex host = dense_.graph.add(dense_.graph.lane(resources_.host), system_.host_per_layer.value());
    dense_.labels.push_back({OpKind::host});
    dense_.graph.depend(op, host);
  }
  engine_.submit(dense_.graph, engine::kDemand);
}

// End of a pass: the output embedding for the rows whose next token is wanted, and the framework's cost a
// pass.
void Server::submit_head() {
  dense_.clear();
  if (const KernelTime time = dense_times_.head(); time.seconds > 0)
    add_kernel(dense_, resources_.dense, time, OpKind::dense);
  if (system_.host_per_pass.value() > 0) {
    const OpIndex host = dense_.graph.add(dense_.graph.lane(resources_.host), system_.host_per_pass.value());
    dense_.labels.push_back({OpKind::host});
    if (host > 0) dense_.graph.depend(host, 0);
  }
  engine_.submit(dense_.graph, engine::kDemand);
}

// Whether nobody would see the graph run, and nothing come in between: then its outcome is as good.
bool Server::may_skip() const {
  return options_.observer == nullptr && engine_.alone();
}

// What submit_dense() comes to, unless there is more to it than one operation. One alone takes its time to
// the last digit even where it shares a capacity: its hand-over and the rest add up exactly (Sterbenz'
// lemma), and alone it is not slowed down.
bool Server::skip_dense(double seconds) {
  if (system_.host_per_layer.value() > 0 || !may_skip()) return false;
  if (engine_.is_free(resources_.dense)) seconds = 0;
  dense_outcome_.time.seconds = seconds;
  dense_outcome_.time.busy.front().seconds = seconds;
  dense_outcome_.stall_s[static_cast<std::size_t>(Cause::dense_compute)] = seconds;
  engine_.skip(dense_outcome_.time);
  add(dense_outcome_);
  return true;
}

bool Server::skip_experts(double shared_s) {
  // What the link and the CPU do depends on more than the states of experts.
  remember_ = may_skip() && missing_ == nullptr;
  if (!remember_) return false;
  const StepOutcome* const known = memo_.find(codes_, shared_s);
  if (known == nullptr) return false;
  engine_.skip(known->time);
  add(*known);
  return true;
}

void Server::route(std::uint32_t moe_layer, const Pass& pass) {
  if (gates_) gates_->read(pass, moe_layer);
  if (routing_)
    substitute(moe_layer, pass);
  else
    uses_ = layer_uses_.collect(trace_, pass, moe_layer);
  domain(moe_layer).begin_step(entry_->per_model ? moe_layer : 0);
  if (entry_->needs_all_scores) domain(moe_layer).observe(gates_->summed());
  tell_mirror(moe_layer);
}

// The routing policy's choice takes the place of the model's.
void Server::substitute(std::uint32_t moe_layer, const Pass& pass) {
  if (prefetch_) settle_fetches(pass_number_ * trace_.layers() + moe_layer);
  find_resident(moe_layer);
  routing_->route(gates_->tokens(), resident_, step_routing_);
  uses_ = layer_uses_.collect(gates_->tokens(), step_routing_);
  if (pass.prompt) return;
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

// Kept by the cache, or fetched ahead and waiting beside it.
void Server::find_resident(std::uint32_t moe_layer) {
  resident_.resize(experts_);
  for (std::uint32_t e = 0; e < experts_; ++e) {
    const FetchSlot* const slot = prefetch_ ? fetches_.find(moe_layer * experts_ + e) : nullptr;
    resident_[e] = state_of(moe_layer, e) != State::M || (slot != nullptr && slot->load.graph.finished());
  }
}

State Server::state_of(std::uint32_t moe_layer, std::uint32_t expert) const {
  return caches_[entry_->per_model ? 0 : moe_layer]->state(object_in_domain(moe_layer, expert));
}

std::uint64_t Server::experts_held() const {
  std::uint64_t held = 0;
  for (std::uint32_t layer = 0; layer < trace_.layers(); ++layer)
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      held += state_of(layer, expert) == State::F ? 1 : 0;
  return held;
}

// Where the missing parts of an expert come from; the reads enter the page cache.
ExpertReads Server::plan_reads(std::uint32_t object, State state) {
  ExpertReads reads = costs_.cold;
  if (state == State::F || !system_.page_cache) return reads;
  const double sm = has_sm(state) ? 0 : costs_.sm_bytes.value() * costs_.tensors;
  const double e = has_e(state) ? 0 : costs_.e_bytes.value() * costs_.tensors;
  if (sm > 0 && page_cache_.read(2 * object, sm)) {
    reads.sm_s = costs_.cached.sm_s;
    reads.sm_tier = Tier::page_cache;
  }
  if (e > 0 && page_cache_.read(2 * object + 1, e)) {
    reads.e_s = costs_.cached.e_s;
    reads.e_tier = Tier::page_cache;
  }
  return reads;
}

// What a finished graph has read.
std::array<double, kTiers> Server::bytes_read(const LabelledGraph& graph) const {
  std::array<double, kTiers> bytes{};
  for (OpIndex op = 0; op < graph.graph.size(); ++op) {
    const OpLabel& label = graph.labels[op];
    if (label.tier == Tier::none || !graph.graph.was_started(op)) continue;
    bytes[static_cast<std::size_t>(label.tier)] +=
        (label.kind == OpKind::read_e ? costs_.e_bytes / costs_.timing.shards : costs_.sm_bytes).value();
  }
  return bytes;
}

void Server::add_stall(Cause cause, double seconds) {
  const auto i = static_cast<std::size_t>(cause);
  metrics_.stall_s[i] += seconds;
  if (!prompt_) metrics_.decode_stall_s[i] += seconds;
}

void Server::add(const StepOutcome& outcome) {
  for (std::size_t i = 0; i < kCauses; ++i) add_stall(static_cast<Cause>(i), outcome.stall_s[i]);
  for (std::size_t i = 0; i < kTiers; ++i) metrics_.bytes[i] += outcome.bytes[i];
}

// Seconds of the experts for so many tokens as nobody has asked for yet.
void Server::compute_expert_seconds(std::uint32_t tokens) {
  for (std::size_t n = expert_seconds_.size(); n <= tokens; ++n)
    expert_seconds_.push_back(
        timing_.expert(scenario_.model, scenario_.model.moe(), static_cast<double>(n)).value());
}

// Adds an expert to the layer's instance. Returns the state it was found in.
State Server::add_demand(std::uint32_t moe_layer, std::uint32_t expert, std::uint32_t tokens, float score) {
  const bool executes = tokens > 0;
  const std::uint32_t object = moe_layer * experts_ + expert;
  Demand demand{state_of(moe_layer, expert), {}};
  demand.held = demand.found;
  if (prefetch_) meet_fetch(object, executes, demand);
  reads_.push_back(plan_reads(object, demand.held));
  tokens_.push_back(tokens);
  scores_.push_back(score);
  if (options_.mirror != nullptr) options_.mirror->use({moe_layer, expert});
  codes_.push_back(LayerMemo::code(reads_.back(), demand.held, tokens));
  instance_.experts.push_back({expert, costs_.tensors, demand.held, executes ? expert_seconds(tokens) : 0});
  return demand.found;
}

// An expert is demanded that may be on its way, or may have come ahead of its demand.
void Server::meet_fetch(std::uint32_t object, bool executes, Demand& demand) {
  FetchSlot* slot = fetches_.find(object);
  if (slot != nullptr && !slot->load.graph.finished() && slot->load.graph.started() == 0) {
    cancel_fetch(object, *slot);  // demanded instead
    slot = nullptr;
  }
  if (slot == nullptr) {
    if (executes) end_taken(taken_bytes_[object], object, demand.found != State::M);
    return;
  }
  demand.held = State::F;
  if (executes && routing_ && !layer_uses_.low_score(object % experts_)) ++metrics_.prefetch.used_top_score;
  if (slot->load.graph.finished()) {
    demand.found = State::F;
    metrics_.prefetch.used += executes ? 1 : 0;
  } else {  // on the way: what is left of it becomes as urgent as a demand
    metrics_.prefetch.late += executes ? 1 : 0;
    engine_.set_priority(slot->load.graph, engine::kDemand);
    awaited_.emplace_back(instance_.experts.size(), &slot->load.graph);
  }
}

// The experts that the layer needs, and where they are.
void Server::gather_experts(std::uint32_t moe_layer, const Pass& pass) {
  instance_.experts.clear();
  codes_.clear();
  reads_.clear();
  tokens_.clear();
  scores_.clear();
  awaited_.clear();
  for (const ExpertUse& use : uses_)
    count_use(moe_layer, use, add_demand(moe_layer, use.object, use.tokens, use.score), pass.prompt);
  if (system_.fetch_whole_layer) {
    auto used = uses_.begin();
    for (std::uint32_t e = 0; e < experts_; ++e) {
      if (used != uses_.end() && used->object == e)
        ++used;
      else
        add_demand(moe_layer, e, 0, 0);
    }
  }
  if (!missing_) return;
  missing_->plan(instance_, tokens_, scores_, order_);
  if (pass.prompt) return;
  metrics_.execution.loaded += missing_->loaded();
  metrics_.execution.on_cpu += missing_->left_to_cpu();
}

void Server::count_use(std::uint32_t moe_layer, const ExpertUse& use, State found, bool prompt) {
  ++metrics_.hits[index(found)];
  if (prompt) return;
  ++metrics_.decode_hits[index(found)];
  ++metrics_.layers.hits[index(found)][moe_layer];
  if (!routing_ || found == State::F) return;
  ++(layer_uses_.low_score(use.object) ? metrics_.routing.low_score_misses
                                       : metrics_.routing.top_score_misses);
}

void Server::submit_experts(std::uint32_t moe_layer, const KernelTime& shared) {
  if (!missing_) schedule_->order(instance_, order_);
  layer_.clear();
  layer_.layer = moe_layer;
  if (missing_) missing_->build(step_tokens_, layer_);
  if (shared.seconds > 0)  // first on the experts' stream: there is one GPU, and it has one memory
    add_kernel(layer_, resources_.experts, shared, OpKind::shared_expert);
  builder_.build(instance_, order_, reads_, tokens_, layer_);
  if (routing_)
    for (OpLabel& label : layer_.labels) label.low_score = layer_uses_.low_score(label.expert);
  waits_.clear();
  for (const auto& [position, fetch] : awaited_) {
    OpIndex op = builder_.execution(position);
    if (op == engine::kNoOp) {  // wanted only as part of the layer: the layer still ends with it
      op = layer_.graph.add(layer_.graph.lane(resources_.host), 0);
      layer_.labels.push_back({OpKind::wait, Tier::none, 0, 0, instance_.experts[position].id});
    }
    layer_.graph.depend_on(op, *fetch);
    waits_.push_back({op, fetch});
  }
  engine_.submit(layer_.graph, engine::kDemand);
}

void Server::finish_layer(std::uint32_t moe_layer) {
  for (std::size_t position = 0; position < uses_.size(); ++position) {
    ExpertUse use = uses_[position];
    if (missing_ && missing_->on_cpu(position)) continue;  // it has not been on the GPU
    if (future_) use.next_use = future_->next_use(moe_layer, use.object, steps_[moe_layer]);
    if (prefetch_)
      if (FetchSlot* slot = fetches_.find(moe_layer * experts_ + use.object); slot != nullptr) release(*slot);
    use.object = object_in_domain(moe_layer, use.object);
    domain(moe_layer).use(use);
  }
  if (!uses_.empty()) ++steps_[moe_layer];  // as FutureUses counts
  tell_mirror(moe_layer);
  release_demands(moe_layer);
  if (prefetch_) settle_fetches(pass_number_ * trace_.layers() + moe_layer + 1);
}

// What caches hold before anything is used.
void Server::preload_mirror() {
  if (options_.mirror == nullptr) return;
  mirrored_.assign(taken_bytes_.size(), State::M);
  for (std::uint32_t object = 0; object < mirrored_.size(); ++object) {
    const engine::ExpertPlace place{object / experts_, object % experts_};
    mirrored_[object] = state_of(place.layer, place.expert);
    if (mirrored_[object] != State::M)
      options_.mirror->preload(place, static_cast<engine::Kept>(mirrored_[object]));
  }
}

// Whatever has changed in the domain of a layer: policies do not say what left for whom.
void Server::tell_mirror(std::uint32_t moe_layer) {
  if (options_.mirror == nullptr) return;
  const std::uint32_t first = entry_->per_model ? 0 : moe_layer * experts_;
  const std::uint32_t end =
      entry_->per_model ? static_cast<std::uint32_t>(mirrored_.size()) : first + experts_;
  for (const bool leaving : {true, false})
    for (std::uint32_t object = first; object < end; ++object) {
      const engine::ExpertPlace place{object / experts_, object % experts_};
      const State to = state_of(place.layer, place.expert);
      if (to == mirrored_[object] || (to == State::M) != leaving) continue;
      options_.mirror->keep(place, static_cast<engine::Kept>(mirrored_[object]),
                            static_cast<engine::Kept>(to));
      mirrored_[object] = to;
    }
}

void Server::release_demands(std::uint32_t moe_layer) {
  if (options_.mirror == nullptr) return;
  for (const LayerExpert& expert : instance_.experts) options_.mirror->release({moe_layer, expert.id});
}

void Server::account(const LabelledGraph& graph, std::int32_t layer) {
  const bool experts = &graph == &layer_;
  StepOutcome outcome;
  outcome.stall_s =
      critical_path(graph, experts ? std::span<const FetchWait>(waits_) : std::span<const FetchWait>());
  if (experts) outcome.bytes = bytes_read(graph);
  add(outcome);
  if (experts && missing_) missing_->observe(graph, options_.witness);
  if (experts && remember_) {
    outcome.time = graph.graph.outcome();
    memo_.keep(outcome);
  }
  if (options_.observer) options_.observer->finished(graph, pass_number_, layer);
}

}  // namespace moelab
