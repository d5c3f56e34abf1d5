#include "sim/serving/prefetcher.hpp"

#include <algorithm>
#include <numeric>

#include "models/timing.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/step_outcome.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

/// Tokens of the largest pass: the prompts of a batch, or a token of each of its requests.
std::uint64_t largest_pass(const RoutingTrace& trace, std::size_t batch) {
  const auto requests = trace.requests();
  std::uint64_t largest = batch;
  for (std::size_t first = 0; first < requests.size(); first += batch) {
    std::uint64_t rows = 0;
    for (std::size_t i = first; i < std::min(first + batch, requests.size()); ++i)
      rows += requests[i].decode_begin - requests[i].begin;
    largest = std::max(largest, rows);
  }
  return largest;
}

PrefetchShape prefetch_shape(const ServerContext& server) {
  const RoutingTrace& trace = server.trace;
  PrefetchShape shape{trace.layers(), trace.experts(), trace.top_k(), server.scenario.seed};
  if (!server.timing.is_discrete()) return shape;
  const Architecture& model = server.scenario.model;
  shape.load_s = server.costs.load_s();
  shape.gpu_s = server.timing.expert(model, model.moe(), 1).value();
  const std::uint64_t largest = std::max<std::uint64_t>(
      largest_pass(trace, server.scenario.workload.batch),
      std::uint64_t{server.scenario.workload.batch} * decode_rows(server.scenario.speculation));
  for (std::uint64_t n = 0; n <= largest; ++n)
    if (const auto seconds = server.timing.cpu_expert(model, model.moe(), static_cast<double>(n)))
      shape.cpu_s.push_back(seconds->value());
  return shape;
}

}  // namespace

std::unique_ptr<Prefetcher> Prefetcher::make(const ServerContext& server, ExpertCache& cache,
                                             SchedulePolicy& schedule) {
  if (server.system.prefetch.name == "none") return nullptr;
  const PrefetchPolicyEntry& entry = *find_prefetch_policy(server.system.prefetch.name);
  return std::unique_ptr<Prefetcher>(new Prefetcher(server, cache, schedule, entry));
}

Prefetcher::Prefetcher(const ServerContext& server, ExpertCache& cache, SchedulePolicy& schedule,
                       const PrefetchPolicyEntry& entry)
    : server_(server),
      cache_(cache),
      schedule_(schedule),
      policy_(make_prefetch_policy(entry, prefetch_shape(server), server.system.prefetch.parameters)),
      runs_attention_ahead_(entry.runs_attention_ahead),
      layers_(server.trace.layers()),
      experts_(server.trace.experts()),
      builder_(server.resources, server.system.worker_reads, server.timing.dispatch().value(),
               server.costs.traffic, server.costs.host_reads),
      instance_(server.costs.timing),
      fetches_(server.system.prefetch_buffer, std::size_t{layers_} * experts_),
      taken_bytes_(std::size_t{layers_} * experts_, kNotTaken) {
  const Architecture& model = server.scenario.model;
  for (const int layer : model.moe_layers())
    stacks_.push_back(model.layers[static_cast<std::size_t>(layer)].stack);
  if (policy_->gates_ahead() > 0) gates_ahead_ = std::make_unique<StepGates>(server.trace);
}

void Prefetcher::begin_pass(std::uint64_t number) {
  pass_ = number;
  policy_->begin_step();
}

void Prefetcher::add_waiting(std::uint32_t layer, std::vector<std::uint8_t>& there) const {
  for (std::uint32_t expert = 0; expert < experts_; ++expert) {
    const FetchSlot* const slot = fetches_.find(object(layer, expert));
    if (slot != nullptr && slot->load.graph.finished()) there[expert] = 1;
  }
}

bool Prefetcher::predicts(std::uint32_t layer) const {
  return runs_attention_ahead_ && layer + 1 < layers_ && stack(layer + 1) == stack(layer);
}

void Prefetcher::after_gate(std::uint32_t layer, const Pass& pass, std::span<const ExpertUse> uses,
                            engine::Graph* prediction) {
  const std::uint64_t now = time_of(pass_, layer);
  settle(now);
  cancel_unstarted(now);
  wishes_.clear();
  if (gates_ahead_) look_ahead(layer, pass);
  policy_->after_gate(layer, uses, wishes_);
  for (const Fetch& wish : wishes_) {
    if (fetches_.full()) break;
    // Layers behind this one, and those of the other stack, run in a later pass.
    const bool this_pass = wish.layer > layer && stack(wish.layer) == stack(layer);
    start(wish, time_of(pass_ + (this_pass ? 0 : 1), wish.layer), prediction);
  }
}

// Gates of layers that have not run yet, for policies that predict them. Those of the next pass are not
// known: it has no tokens yet.
void Prefetcher::look_ahead(std::uint32_t layer, const Pass& pass) {
  for (std::uint32_t ahead = layer + 1; ahead <= layer + policy_->gates_ahead(); ++ahead) {
    if (ahead >= layers_ || stack(ahead) != stack(layer)) return;
    gates_ahead_->read(pass, ahead);
    cache_.find_kept(ahead, resident_);
    add_waiting(ahead, resident_);
    policy_->gate_ahead(ahead, gates_ahead_->ahead(), resident_);
  }
}

void Prefetcher::start(const Fetch& fetch, std::uint64_t due, engine::Graph* prediction) {
  const std::uint32_t number = object(fetch.layer, fetch.expert);
  const State state = cache_.state(fetch.layer, fetch.expert);
  if (state == State::F || fetches_.find(number) != nullptr) return;
  end_taken(number, false, false);
  FetchSlot& slot = fetches_.take(number);
  slot.layer = fetch.layer;
  slot.expert = fetch.expert;
  slot.pass = pass_;
  slot.due = due;
  slot.offered = slot.taken = slot.met = false;
  slot.state = state;
  slot.reads = cache_.plan_reads(fetch.layer, fetch.expert, state);
  instance_.experts.assign(1, {fetch.expert, server_.costs.tensors, state, 0});
  schedule_.order(instance_, order_);
  slot.load.clear();
  slot.load.layer = fetch.layer;
  const std::uint32_t tokens = 0;
  builder_.build(instance_, order_, {&slot.reads, 1}, {&tokens, 1}, slot.load);
  if (prediction != nullptr)
    for (engine::OpIndex op = 0; op < slot.load.graph.size(); ++op)
      if (slot.load.labels[op].tier != Tier::none) slot.load.graph.depend_on(op, *prediction);
  if (server_.mirror != nullptr) server_.mirror->use({fetch.layer, fetch.expert});
  server_.engine.submit(slot.load.graph, engine::kPrefetch);
  ++server_.metrics.prefetch.fetched;
}

Prefetcher::Met Prefetcher::meet(std::uint32_t layer, std::uint32_t expert, State kept, Demand demand) {
  PrefetchCounts& counts = server_.metrics.prefetch;
  const std::uint32_t number = object(layer, expert);
  FetchSlot* slot = fetches_.find(number);
  if (slot != nullptr && !slot->load.graph.finished() && slot->load.graph.started() == 0) {
    cancel(*slot);  // demanded instead
    slot = nullptr;
  }
  if (slot == nullptr) {
    if (demand.executes) end_taken(number, kept != State::M, demand.top_score);
    return {kept, kept};
  }
  if (demand.executes && demand.top_score) ++counts.used_top_score;
  slot->met = demand.executes;
  engine::Graph& load = slot->load.graph;
  if (load.finished()) {
    counts.used += demand.executes ? 1 : 0;
    return {State::F, State::F};
  }
  counts.late += demand.executes ? 1 : 0;
  server_.engine.set_priority(load, engine::kDemand);
  return {kept, State::F, &load};
}

void Prefetcher::used(std::uint32_t layer, std::uint32_t expert) {
  if (FetchSlot* const slot = fetches_.find(object(layer, expert))) release(*slot);
}

// A layer is up: what has not begun for it is demanded instead, or was not wanted after all.
void Prefetcher::cancel_unstarted(std::uint64_t now) {
  fetches_.for_each([&](std::uint32_t, FetchSlot& slot) {
    if (slot.due <= now && !slot.load.graph.finished() && slot.load.graph.started() == 0) cancel(slot);
  });
}

// What has arrived is offered to the cache; what was meant for a layer that has passed goes.
void Prefetcher::settle(std::uint64_t now) {
  fetches_.for_each([&](std::uint32_t number, FetchSlot& slot) {
    const bool overdue = slot.due < now;
    if (!slot.load.graph.finished()) {
      if (overdue && slot.load.graph.started() == 0) cancel(slot);
      return;
    }
    if (!slot.offered) {
      slot.offered = true;
      slot.taken = cache_.insert(slot.layer, slot.expert);
    }
    const State kept = cache_.state(slot.layer, slot.expert);
    if (slot.taken && (kept == State::F || (overdue && kept != State::M)))
      taken_bytes_[number] = release(slot);
    else if (overdue)
      drop(slot);
  });
}

// The slot becomes free. Returns the bytes that were read for it.
double Prefetcher::release(FetchSlot& slot) {
  if (server_.observer != nullptr) server_.observer->finished(slot.load, slot.pass, -1);
  const std::array<double, kTiers> bytes = bytes_read(slot.load);
  for (std::size_t tier = 0; tier < kTiers; ++tier) server_.metrics.bytes[tier] += bytes[tier];
  free_slot(slot);
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

void Prefetcher::drop(FetchSlot& slot) {
  if (slot.load.graph.started() == 0) return cancel(slot);
  const bool counted = slot.met;
  const double bytes = release(slot);
  if (counted) return;
  ++server_.metrics.prefetch.unused;
  server_.metrics.prefetch.wasted_bytes += bytes;
}

void Prefetcher::cancel(FetchSlot& slot) {
  server_.engine.cancel(slot.load.graph);
  cache_.forget_reads(slot.layer, slot.expert, slot.state, slot.reads);  // it read nothing after all
  --server_.metrics.prefetch.fetched;
  ++server_.metrics.prefetch.cancelled;
  free_slot(slot);
}

void Prefetcher::free_slot(FetchSlot& slot) {
  if (server_.mirror != nullptr) server_.mirror->release({slot.layer, slot.expert});
  fetches_.release(object(slot.layer, slot.expert));
}

// A prefetched expert that the cache took is used for the first time, or will not be.
void Prefetcher::end_taken(std::uint32_t number, bool was_used, bool top_score) {
  if (taken_bytes_[number] == kNotTaken) return;
  PrefetchCounts& counts = server_.metrics.prefetch;
  if (was_used && top_score) ++counts.used_top_score;
  ++(was_used ? counts.used : counts.unused);
  if (!was_used) counts.wasted_bytes += taken_bytes_[number];
  taken_bytes_[number] = kNotTaken;
}

void Prefetcher::cancel_all() {
  fetches_.for_each([this](std::uint32_t, FetchSlot& slot) { server_.engine.cancel(slot.load.graph); });
}

void Prefetcher::end() {
  for (std::uint32_t number = 0; number < taken_bytes_.size(); ++number) end_taken(number, false, false);
}

}  // namespace moelab
