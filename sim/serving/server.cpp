#include "sim/serving/server.hpp"

#include <algorithm>

namespace moelab {

using engine::Lane;
using engine::OpIndex;

namespace {

/// Query tokens of a prompt that share one read of keys and values in a tiled attention kernel.
constexpr double kPromptTile = 128;

ServerResources add_resources(engine::Engine& engine, const SystemConfig& system,
                              const DeviceProfile& device) {
  ServerResources r{};
  r.host = engine.add_resource("host", 1);
  r.io = engine.add_resource("io", 1);
  r.decompress = engine.add_resource("decompress", system.threads);
  r.recover = engine.add_resource("recover", 1);
  r.experts = engine.add_resource("expert_compute", 1);
  r.dense = engine.add_resource("dense_compute", 1);
  r.ssd = engine.add_capacity("ssd", device.ssd.readers.value);
  engine.add_interference({r.ssd, r.decompress, device.ssd.slowdown_while_decompressing.value});
  return r;
}

std::vector<std::unique_ptr<CachePolicy>> make_caches(const CachePolicyEntry& entry,
                                                      const SystemConfig& system, const RoutingTrace& trace,
                                                      const ExpertCosts& costs, const MemoryPlan& memory,
                                                      const std::array<std::uint32_t, kStates>& pools) {
  const std::uint32_t domains = entry.per_model ? 1 : trace.layers();
  CacheShape shape;
  shape.layers = entry.per_model ? trace.layers() : 1;
  shape.objects = shape.layers * trace.experts();
  shape.capacity_bytes = memory.expert_cache.value() / domains;
  shape.bytes = costs.bytes;
  shape.pool_experts = pools;
  shape.kept_as = system.kept_as;
  std::vector<std::unique_ptr<CachePolicy>> caches;
  for (std::uint32_t d = 0; d < domains; ++d) caches.push_back(entry.make(shape, system.cache.parameters));
  return caches;
}

}  // namespace

Server::Server(engine::Engine& engine, const Scenario& scenario, const SystemConfig& system,
               const RoutingTrace& trace, const ExpertCosts& costs, const MemoryPlan& memory,
               const std::array<std::uint32_t, kStates>& pools, ServerOptions options)
    : engine_(engine),
      scenario_(scenario),
      system_(system),
      trace_(trace),
      costs_(costs),
      options_(std::move(options)),
      timing_(scenario.device),
      experts_(trace.experts()),
      resources_(add_resources(engine, system, scenario.device)),
      entry_(find_cache_policy(system.cache.name)),
      caches_(make_caches(*entry_, system, trace, costs, memory, pools)),
      schedule_(make_schedule_policy(system.schedule.name, system.schedule.parameters)),
      page_cache_(2 * std::size_t{trace.layers()} * trace.experts(), memory.page_cache.value()),
      fetches_(system.prefetch_buffer, std::size_t{trace.layers()} * trace.experts()),
      builder_(resources_, system.worker_reads, timing_.dispatch().value()),
      instance_(costs.timing),
      fetch_instance_(costs.timing),
      layer_uses_(trace.experts()),
      steps_(trace.layers(), 0) {
  if (system.prefetch.name != "none")
    prefetch_ = find_prefetch_policy(system.prefetch.name)
                    ->make({trace.layers(), trace.experts(), trace.top_k()}, system.prefetch.parameters);
  if (entry_->needs_future)
    future_ = std::make_unique<FutureUses>(trace, scenario.workload.batch, scenario.model.has_encoder());
  std::int32_t moe_layers = 0;
  for (const Layer& layer : scenario.model.layers)
    moe_index_.push_back(layer.feed_forward.kind == FeedForward::Kind::moe ? moe_layers++ : -1);
}

engine::Process Server::serve() {
  Batch batch(trace_, scenario_.model.has_encoder());
  Pass pass;
  const std::size_t requests = trace_.requests().size();
  for (std::size_t first = 0; first < requests; first += batch.size()) {
    batch.start(first, std::min<std::size_t>(scenario_.workload.batch, requests - first));
    const double arrival = engine_.now();
    first_token_.assign(batch.size(), -1);
    last_token_.assign(batch.size(), -1);
    for (auto& cache : caches_) cache->begin_request();
    if (prefetch_) prefetch_->begin_request();

    for (; batch.next(pass); ++pass_number_) {
      if (prefetch_) prefetch_->begin_step();
      for (std::size_t i = 0; i < scenario_.model.layers.size(); ++i) {
        const Layer& layer = scenario_.model.layers[i];
        if (layer.stack != pass.stack) continue;
        const auto number = static_cast<std::int32_t>(i);
        submit_dense(layer, pass);
        co_await engine_.finished(dense_.graph);
        account(dense_, number);
        if (moe_index_[i] < 0) continue;

        const auto moe_layer = static_cast<std::uint32_t>(moe_index_[i]);
        route(moe_layer, pass);
        prefetch(moe_layer);
        submit_experts(layer, moe_layer, pass);
        co_await engine_.finished(layer_.graph);
        account(layer_, number);
        finish_layer(moe_layer);
      }
      submit_head(pass);
      co_await engine_.finished(dense_.graph);
      account(dense_, -1);
      finish_pass(batch, arrival);
    }
  }
  metrics_.wall_s = engine_.now();
}

// Dense part: host overhead, then attention (with the gate) and, in a dense layer, its feed-forward part.
void Server::submit_dense(const Layer& layer, const Pass& pass) {
  Work work =
      attention_work(scenario_.model, layer, pass.tokens, pass.context, pass.prompt ? kPromptTile : 1);
  if (layer.feed_forward.kind == FeedForward::Kind::dense) {
    const Work ffn = dense_work(scenario_.model, layer, pass.tokens);
    work.flops += ffn.flops;
    work.weight_bytes += ffn.weight_bytes;
    work.kernels += ffn.kernels;
  }
  dense_.clear();
  const OpIndex op = dense_.graph.add(dense_.graph.lane(resources_.dense),
                                      timing_.kernel(work).value() + timing_.dispatch().value());
  dense_.labels.push_back({OpKind::dense});
  if (system_.host_per_layer.value() > 0) {
    const OpIndex host = dense_.graph.add(dense_.graph.lane(resources_.host), system_.host_per_layer.value());
    dense_.labels.push_back({OpKind::host});
    dense_.graph.depend(op, host);
  }
  engine_.submit(dense_.graph, engine::kDemand);
}

// End of a pass: the output embedding for the rows whose next token is wanted, and the framework's cost a
// pass.
void Server::submit_head(const Pass& pass) {
  dense_.clear();
  if (pass.produces > 0) {
    const Work work = head_work(scenario_.model, pass.produces);
    dense_.graph.add(dense_.graph.lane(resources_.dense),
                     timing_.kernel(work).value() + timing_.dispatch().value());
    dense_.labels.push_back({OpKind::dense});
  }
  if (system_.host_per_pass.value() > 0) {
    const OpIndex host = dense_.graph.add(dense_.graph.lane(resources_.host), system_.host_per_pass.value());
    dense_.labels.push_back({OpKind::host});
    if (host > 0) dense_.graph.depend(host, 0);
  }
  engine_.submit(dense_.graph, engine::kDemand);
}

void Server::route(std::uint32_t moe_layer, const Pass& pass) {
  uses_ = layer_uses_.collect(trace_, pass, moe_layer);
  domain(moe_layer).begin_step(entry_->per_model ? moe_layer : 0);
}

State Server::state_of(std::uint32_t moe_layer, std::uint32_t expert) const {
  return caches_[entry_->per_model ? 0 : moe_layer]->state(object_in_domain(moe_layer, expert));
}

// Where the missing parts of an expert come from; the reads enter the page cache.
ExpertReads Server::plan_reads(std::uint32_t object, State state, double& bytes, bool& sm_from_ssd,
                               bool& e_from_ssd) {
  ExpertReads reads = costs_.cold;
  const double sm = has_sm(state) ? 0 : costs_.sm_bytes.value() * costs_.tensors;
  const double e = has_e(state) ? 0 : costs_.e_bytes.value() * costs_.tensors;
  if (system_.page_cache && sm > 0 && page_cache_.read(2 * object, sm)) {
    reads.sm_s = costs_.cached.sm_s;
    reads.sm_tier = Tier::page_cache;
  }
  if (system_.page_cache && e > 0 && page_cache_.read(2 * object + 1, e)) {
    reads.e_s = costs_.cached.e_s;
    reads.e_tier = Tier::page_cache;
  }
  metrics_.bytes[static_cast<std::size_t>(reads.sm_tier)] += sm;
  metrics_.bytes[static_cast<std::size_t>(reads.e_tier)] += e;
  bytes = sm + e;
  sm_from_ssd = sm > 0 && reads.sm_tier == Tier::ssd;
  e_from_ssd = e > 0 && reads.e_tier == Tier::ssd;
  return reads;
}

double Server::expert_seconds(std::uint32_t tokens) {
  if (tokens >= expert_seconds_.size()) expert_seconds_.resize(tokens + 1, -1);
  double& seconds = expert_seconds_[tokens];
  if (seconds < 0)
    seconds = timing_.kernel(expert_work(scenario_.model, scenario_.model.moe(), tokens)).value();
  return seconds;
}

void Server::add_demand(std::uint32_t moe_layer, std::uint32_t expert, double execute_s, bool executes) {
  const std::uint32_t object = moe_layer * experts_ + expert;
  State state = state_of(moe_layer, expert);
  if (FetchSlot* slot = fetches_.find(object); slot != nullptr) {
    // Fetched already, or on the way: then what is left of it becomes as urgent as a demand.
    if (slot->load.graph.finished()) {
      ++metrics_.prefetch.used;
    } else {
      ++metrics_.prefetch.late;
      engine_.set_priority(slot->load.graph, engine::kDemand);
      awaited_.emplace_back(instance_.experts.size(), &slot->load.graph);
    }
    state = State::F;
  }
  double bytes = 0;
  bool sm_from_ssd = false, e_from_ssd = false;
  reads_.push_back(plan_reads(object, state, bytes, sm_from_ssd, e_from_ssd));
  executes_.push_back(executes ? 1 : 0);
  instance_.experts.push_back({expert, costs_.tensors, state, execute_s});
}

void Server::submit_experts(const Layer& layer, std::uint32_t moe_layer, const Pass& pass) {
  instance_.experts.clear();
  reads_.clear();
  executes_.clear();
  awaited_.clear();
  for (const ExpertUse& use : uses_) {
    add_demand(moe_layer, use.object, expert_seconds(use.tokens), true);
    const std::size_t found = index(instance_.experts.back().state);
    ++metrics_.hits[found];
    if (!pass.prompt) ++metrics_.decode_hits[found];
  }
  if (system_.fetch_whole_layer) {
    auto used = uses_.begin();
    for (std::uint32_t e = 0; e < experts_; ++e) {
      if (used != uses_.end() && used->object == e)
        ++used;
      else
        add_demand(moe_layer, e, 0, false);
    }
  }
  schedule_->order(instance_, order_);
  layer_.clear();
  builder_.build(instance_, order_, reads_, executes_, layer_);
  awaits_prefetch_.clear();
  for (const auto& [position, fetch] : awaited_) {
    if (const OpIndex op = builder_.execution(position); op != engine::kNoOp) {
      layer_.graph.depend_on(op, *fetch);
      awaits_prefetch_.push_back(op);
    } else {  // wanted only as part of the layer: the layer still ends with it
      const OpIndex join = layer_.graph.add(layer_.graph.lane(resources_.experts), 0);
      layer_.labels.push_back({OpKind::execute});
      layer_.graph.depend_on(join, *fetch);
      awaits_prefetch_.push_back(join);
    }
  }
  if (layer.feed_forward.shared_width > 0) {
    const double seconds =
        timing_.kernel(dense_work(scenario_.model, layer, pass.tokens)).value() + timing_.dispatch().value();
    layer_.graph.add(layer_.graph.lane(resources_.dense), seconds);
    layer_.labels.push_back({OpKind::shared_expert});
  }
  engine_.submit(layer_.graph, engine::kDemand);
}

void Server::finish_layer(std::uint32_t moe_layer) {
  for (ExpertUse use : uses_) {
    if (future_) use.next_use = future_->next_use(moe_layer, use.object, steps_[moe_layer]);
    const std::uint32_t object = moe_layer * experts_ + use.object;
    if (FetchSlot* slot = fetches_.find(object); slot != nullptr && slot->load.graph.finished())
      fetches_.release(object);
    use.object = object_in_domain(moe_layer, use.object);
    domain(moe_layer).use(use);
  }
  ++steps_[moe_layer];
  if (prefetch_) settle_fetches(pass_number_ * trace_.layers() + moe_layer + 1);
}

void Server::prefetch(std::uint32_t moe_layer) {
  if (!prefetch_) return;
  const std::uint64_t here = pass_number_ * trace_.layers() + moe_layer;
  settle_fetches(here);
  wishes_.clear();
  prefetch_->after_gate(moe_layer, uses_, wishes_);
  for (const Fetch& wish : wishes_) {
    if (fetches_.full()) break;
    const std::uint64_t ahead =
        wish.layer > moe_layer ? wish.layer - moe_layer : wish.layer + trace_.layers() - moe_layer;
    start_fetch(wish, here + ahead);
  }
}

void Server::start_fetch(const Fetch& fetch, std::uint64_t due) {
  const std::uint32_t object = fetch.layer * experts_ + fetch.expert;
  const State state = state_of(fetch.layer, fetch.expert);
  if (state == State::F || fetches_.find(object) != nullptr) return;
  FetchSlot& slot = fetches_.take(object);
  slot.layer = fetch.layer;
  slot.expert = fetch.expert;
  slot.due = due;
  slot.offered = false;
  const ExpertReads reads = plan_reads(object, state, slot.bytes, slot.sm_from_ssd, slot.e_from_ssd);
  fetch_instance_.experts.assign(1, {fetch.expert, costs_.tensors, state, 0});
  schedule_->order(fetch_instance_, order_);
  slot.load.clear();
  const std::uint8_t executes = 0;
  builder_.build(fetch_instance_, order_, {&reads, 1}, {&executes, 1}, slot.load);
  engine_.submit(slot.load.graph, engine::kPrefetch);
  ++metrics_.prefetch.fetched;
}

// What has arrived is offered to the cache; what was meant for a layer that has passed goes.
void Server::settle_fetches(std::uint64_t now_due) {
  fetches_.for_each([&](std::uint32_t object, FetchSlot& slot) {
    if (slot.load.graph.finished()) {
      if (!slot.offered) {
        slot.offered = true;
        if (options_.observer) options_.observer->finished(slot.load, pass_number_, -1);
        if (domain(slot.layer).insert(object_in_domain(slot.layer, slot.expert))) {
          fetches_.release(object);
          return;
        }
      }
      if (slot.due < now_due) {
        metrics_.prefetch.wasted_bytes += slot.bytes;
        fetches_.release(object);
      }
    } else if (slot.due < now_due && slot.load.graph.started() == 0) {
      drop_fetch(object, slot);
    }
  });
}

void Server::drop_fetch(std::uint32_t object, FetchSlot& slot) {
  engine_.cancel(slot.load.graph);
  // It read nothing after all.
  const double sm = slot.sm_from_ssd ? costs_.sm_bytes.value() * costs_.tensors : 0;
  const double e = slot.e_from_ssd ? costs_.e_bytes.value() * costs_.tensors : 0;
  metrics_.bytes[static_cast<std::size_t>(Tier::ssd)] -= sm + e;
  metrics_.bytes[static_cast<std::size_t>(Tier::page_cache)] -= slot.bytes - sm - e;
  if (slot.sm_from_ssd) page_cache_.forget(2 * object);
  if (slot.e_from_ssd) page_cache_.forget(2 * object + 1);
  --metrics_.prefetch.fetched;
  ++metrics_.prefetch.cancelled;
  fetches_.release(object);
}

void Server::account(const LabelledGraph& graph, std::int32_t layer) {
  static const std::vector<OpIndex> kNone;
  add_critical_path(graph, &graph == &layer_ ? awaits_prefetch_ : kNone, metrics_.stall_s);
  if (options_.observer) options_.observer->finished(graph, pass_number_, layer);
}

void Server::finish_pass(const Batch& batch, double arrival) {
  const double now = engine_.now();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!batch.gets_token(i)) continue;
    ++metrics_.tokens;
    if (first_token_[i] < 0) {
      first_token_[i] = now;
      metrics_.ttft_s.push_back(now - arrival);
    } else {
      metrics_.token_gaps_s.push_back(now - last_token_[i]);
    }
    last_token_[i] = now;
    if (batch.finishes(i)) metrics_.end_to_end_s.push_back(now - arrival);
  }
  if (options_.progress) options_.progress(metrics_.tokens);
}

}  // namespace moelab
