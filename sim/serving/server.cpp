#include "sim/serving/server.hpp"

#include <algorithm>

namespace moelab {

namespace {

ServerResources add_resources(engine::Engine& engine, std::string_view prefix, const SystemConfig& system,
                              const TimingModel& timing, const ExpertCosts& costs) {
  const auto add = [&](const char* name, std::uint32_t slots) {
    return engine.add_resource(std::string(prefix) + name, slots);
  };
  const DeviceProfile& device = timing.device();
  ServerResources r{};
  r.host = add("host", 1);
  r.recovers_on_cpu = timing.recovers_on_cpu();
  r.computes_on_cpu = timing.computes_on_cpu();
  r.copies_on_cpu = timing.copies_on_cpu();
  if (device.memory.controller && engine.resolves_chains())
    r.memory = engine.add_capacity("memory", {.bandwidth = device.memory.controller->value.value()});
  if (device.cpu.sharing) r.cpu = engine.add_capacity("cpu", {.slowdown = device.cpu.sharing->value});
  if (device.is_discrete()) {
    r.io = r.decompress = r.recover = add("link", 1);
    r.link_out = add("link_out", 1);
    r.cpu_experts = add("cpu_experts", 1);
    r.experts = add("expert_compute", 1);
    r.dense = add("dense_compute", 1);
    return r;
  }
  r.io = add("io", 1);
  r.decompress = add("decompress", system.threads);
  r.recover = add("recover", 1);
  r.experts = add("expert_compute", 1);
  r.dense = add("dense_compute", 1);
  r.ssd = engine.add_capacity(
      "ssd",
      {.slowdown = device.ssd.readers.value, .bandwidth = costs.ssd_bytes_per_second, .beyond = r.memory});
  engine.add_interference({r.ssd, r.decompress, device.ssd.slowdown_while_decompressing.value});
  return r;
}

std::vector<std::unique_ptr<CachePolicy>> make_caches(const CachePolicyEntry& entry,
                                                      const SystemConfig& system, const RoutingTrace& trace,
                                                      const ExpertCosts& costs, const MemoryPlan& memory,
                                                      const std::array<std::uint32_t, kStates>& pools,
                                                      std::span<const double> profile) {
  const std::uint32_t domains = entry.per_model ? 1 : trace.layers();
  CacheShape shape;
  shape.layers = entry.per_model ? trace.layers() : 1;
  shape.objects = shape.layers * trace.experts();
  shape.capacity_bytes = memory.expert_cache.value() / domains;
  shape.bytes = costs.bytes;
  shape.pool_experts = pools;
  shape.kept_as = system.kept_as;
  shape.top_k = trace.top_k();
  std::vector<std::unique_ptr<CachePolicy>> caches;
  for (std::uint32_t d = 0; d < domains; ++d) {
    if (entry.needs_profile) shape.profile = profile.subspan(std::size_t{d} * shape.objects, shape.objects);
    caches.push_back(entry.make(shape, system.cache.parameters));
  }
  return caches;
}

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

bool wants_scores(const SystemConfig& system) {
  return find_cache_policy(system.cache.name)->needs_scores ||
         find_execution_policy(system.execution.name)->needs_scores;
}

PrefetchShape prefetch_shape(const Scenario& scenario, const RoutingTrace& trace, const TimingModel& timing,
                             const ExpertCosts& costs) {
  PrefetchShape shape{trace.layers(), trace.experts(), trace.top_k(), scenario.seed};
  if (!timing.is_discrete()) return shape;
  const Architecture& model = scenario.model;
  shape.load_s = costs.load_s();
  shape.gpu_s = timing.expert(model, model.moe(), 1).value();
  for (std::uint64_t n = 0; n <= largest_pass(trace, scenario.workload.batch); ++n)
    if (const auto seconds = timing.cpu_expert(model, model.moe(), static_cast<double>(n)))
      shape.cpu_s.push_back(seconds->value());
  return shape;
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
      dense_times_(scenario.model, timing_),
      experts_(trace.experts()),
      resources_(add_resources(engine, options_.prefix, system, timing_, costs)),
      entry_(find_cache_policy(system.cache.name)),
      caches_(make_caches(*entry_, system, trace, costs, memory, pools, options_.profile)),
      schedule_(make_schedule_policy(system.schedule.name, system.schedule.parameters)),
      page_cache_(2 * std::size_t{trace.layers()} * trace.experts(), memory.page_cache.value()),
      fetches_(system.prefetch_buffer, std::size_t{trace.layers()} * trace.experts()),
      builder_(resources_, system.worker_reads, timing_.dispatch().value(), costs.traffic),
      instance_(costs.timing),
      fetch_instance_(costs.timing),
      layer_uses_(trace.experts(), wants_scores(system)),
      taken_bytes_(std::size_t{trace.layers()} * trace.experts(), kNotTaken),
      steps_(trace.layers(), 0) {
  dense_outcome_.time = {0, 1, 1, {{{resources_.dense, 0}}}};
  preload_mirror();
  if (const PrefetchPolicyEntry& prefetch = *find_prefetch_policy(system.prefetch.name);
      system.prefetch.name != "none") {
    prefetch_ = prefetch.make(prefetch_shape(scenario, trace, timing_, costs), system.prefetch.parameters);
    runs_attention_ahead_ = prefetch.runs_attention_ahead;
  }
  if (const auto* routing = find_routing_policy(system.routing.name); routing->needs_all_scores)
    routing_ = routing->make(system.routing.parameters);
  if (timing_.is_discrete())
    missing_ = std::make_unique<MissingExperts>(scenario.model, timing_, system, costs, resources_);
  if (routing_ || entry_->needs_all_scores) gates_ = std::make_unique<StepGates>(trace);
  if (prefetch_ && prefetch_->gates_ahead() > 0) gates_ahead_ = std::make_unique<StepGates>(trace);
  if (entry_->needs_future)
    future_ = std::make_unique<FutureUses>(trace, scenario.workload.batch, scenario.model.has_encoder());
  metrics_.ttft_s.reserve(trace.requests().size());
  metrics_.end_to_end_s.reserve(trace.requests().size());
  metrics_.token_gaps_s.reserve(trace.tokens());
  metrics_.layers = LayerCounts(trace.layers());
  for (const Layer& layer : scenario.model.layers) {
    const bool moe = layer.feed_forward.kind == FeedForward::Kind::moe;
    moe_index_.push_back(moe ? static_cast<std::int32_t>(moe_stack_.size()) : -1);
    if (!moe) continue;
    moe_stack_.push_back(layer.stack);
    model_layer_.push_back(moe_index_.size() - 1);
  }
}

// Takes requests into a batch; false: there are none for now.
bool Server::start_batch(Batch& batch) {
  const std::size_t most = scenario_.workload.batch;
  if (options_.source == nullptr) {
    arrivals_.clear();
    for (; arrivals_.size() < most && next_request_ < trace_.requests().size(); ++next_request_)
      arrivals_.push_back({next_request_, engine_.now()});
  } else {
    const auto taken = options_.source->take(engine_.now(), most);
    arrivals_.assign(taken.begin(), taken.end());
  }
  if (arrivals_.empty()) return false;
  std::vector<std::size_t> numbers;
  for (const RequestSource::Arrival& arrival : arrivals_) numbers.push_back(arrival.request);
  batch.start(numbers);
  batch_begin_ = engine_.now();
  kv_tokens_ = 0;
  first_token_.assign(batch.size(), -1);
  last_token_.assign(batch.size(), -1);
  return true;
}

engine::Process Server::serve() {
  Batch batch(trace_, scenario_.model.has_encoder());
  Pass pass;
  for (;;) {
    if (!start_batch(batch)) {
      const std::optional<double> next =
          options_.source == nullptr ? std::nullopt : options_.source->next_time();
      if (!next) break;
      co_await engine_.until(*next);
      continue;
    }
    for (auto& cache : caches_) cache->begin_request();
    if (prefetch_) prefetch_->begin_request();

    for (; batch.next(pass); ++pass_number_) {
      if (prefetch_) prefetch_->begin_step();
      prompt_ = pass.prompt;
      step_tokens_ = pass.tokens;
      kv_tokens_ += pass.tokens;
      show_memory();
      dense_times_.begin(pass);
      for (std::size_t i = 0; i < scenario_.model.layers.size(); ++i) {
        if (scenario_.model.layers[i].stack != pass.stack) continue;
        const auto number = static_cast<std::int32_t>(i);
        const double began = engine_.now();
        if (!skip_dense(dense_times_.dense(i).seconds)) {
          submit_dense(dense_times_.dense(i));
          co_await engine_.finished(dense_.graph);
          account(dense_, number);
        }
        if (moe_index_[i] < 0) continue;

        const auto moe_layer = static_cast<std::uint32_t>(moe_index_[i]);
        route(moe_layer, pass);
        predicts_ = predicts(moe_layer);
        if (predicts_) submit_prediction(moe_layer);
        prefetch(moe_layer, pass);
        gather_experts(moe_layer, pass);
        if (!skip_experts(dense_times_.shared(i).seconds)) {
          submit_experts(moe_layer, dense_times_.shared(i));
          co_await engine_.finished(layer_.graph);
          account(layer_, number);
        }
        if (predicts_) {  // the next layer's dense part has the same GPU
          const double end = engine_.now();
          co_await engine_.finished(prediction_.graph);
          add_stall(Cause::prediction, engine_.now() - end);
          if (options_.observer) options_.observer->finished(prediction_, pass_number_, number);
        }
        finish_layer(moe_layer);
        if (!prompt_) metrics_.layers.stall_s[moe_layer] += engine_.now() - began;
        show_memory();
      }
      submit_head();
      co_await engine_.finished(dense_.graph);
      account(dense_, -1);
      finish_pass(batch);
    }
  }
  metrics_.wall_s = engine_.now();

  // What is still on its way is of no use any more; a read that has begun ends.
  fetches_.for_each([this](std::uint32_t, FetchSlot& slot) { engine_.cancel(slot.load.graph); });
  while (FetchSlot* const slot = fetches_.any()) {
    co_await engine_.finished(slot->load.graph);
    drop(*slot);
  }
  for (std::uint32_t object = 0; object < taken_bytes_.size(); ++object)
    end_taken(taken_bytes_[object], object, false);
}

void Server::show_memory() const {
  if (options_.observer == nullptr || !options_.observer->wants_memory()) return;
  MemoryContents memory;
  for (const auto& cache : caches_) memory.expert_bytes += cache->bytes_held();
  for (std::uint32_t layer = 0; layer < trace_.layers(); ++layer)
    for (std::uint32_t expert = 0; expert < experts_; ++expert)
      if (const State state = state_of(layer, expert); state != State::M) ++memory.experts[index(state)];
  memory.kv_bytes = kv_tokens_ * kv_bytes_per_token(scenario_.model).value();
  options_.observer->holds(engine_.now(), memory);
}

void Server::show_answer(std::size_t i) const {
  if (options_.observer == nullptr) return;
  options_.observer->answered(
      {arrivals_[i].request, arrivals_[i].at_s, batch_begin_, first_token_[i], last_token_[i]});
}

void Server::finish_pass(const Batch& batch) {
  const double now = engine_.now();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!batch.gets_token(i)) continue;
    ++metrics_.tokens;
    if (first_token_[i] < 0) {
      first_token_[i] = now;
      metrics_.ttft_s.push_back(now - arrivals_[i].at_s);
    } else {
      metrics_.token_gaps_s.push_back(now - last_token_[i]);
    }
    last_token_[i] = now;
    if (!batch.finishes(i)) continue;
    metrics_.end_to_end_s.push_back(now - arrivals_[i].at_s);
    if (options_.source != nullptr) options_.source->finished(arrivals_[i], now);
    show_answer(i);
  }
  if (options_.observer != nullptr) options_.observer->pass_ended(now, pass_number_, metrics_.tokens);
  if (options_.progress) options_.progress(metrics_.tokens);
}

}  // namespace moelab
