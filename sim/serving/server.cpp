#include "sim/serving/server.hpp"

#include <stdexcept>

#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/kv_swap.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

namespace {

bool wants_scores(const SystemConfig& system) {
  return find_cache_policy(system.cache.name)->needs_scores ||
         find_execution_policy(system.execution.name)->needs_scores;
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
      moe_numbers_(scenario.model.moe_numbers()),
      moe_layers_(scenario.model.moe_layers()),
      resources_(add_server_resources(engine, options_.prefix, timing_, costs, memory.experts_on_ssd)),
      all_reduces_(scenario, timing_, engine, options_.prefix),
      in_turn_(trace, scenario.workload.batch, prompts_of(scenario)),
      batching_(make_batching(scenario, system, memory)),
      stream_(options_.source != nullptr ? *options_.source : in_turn_, trace, *batching_),
      cache_(context(), memory, pools, options_.profile),
      schedule_(make_schedule_policy(system.schedule.name, system.schedule.parameters)),
      prefetcher_(Prefetcher::make(context(), cache_, *schedule_)),
      builder_(resources_, system.worker_reads, timing_.dispatch().value(), costs.traffic, costs.host_reads),
      instance_(costs.timing),
      layer_uses_(trace.experts(), wants_scores(system)),
      memory_(memory) {
  dense_outcome_.time = {0, 1, 1, {{{resources_.dense, 0}}}};
  if (const auto* routing = find_routing_policy(system.routing.name); routing->needs_all_scores)
    routing_ = routing->make(system.routing.parameters);
  if (timing_.is_discrete() && !system.compressed)
    missing_ = std::make_unique<MissingExperts>(scenario.model, timing_, system, costs, resources_,
                                                static_cast<int>(scenario.tensor_parallel));
  if (routing_ || cache_.needs_all_scores()) gates_ = std::make_unique<StepGates>(trace);
  metrics_.ttft_s.reserve(trace.requests().size());
  metrics_.end_to_end_s.reserve(trace.requests().size());
  metrics_.token_gaps_s.reserve(trace.tokens());
  metrics_.layers = LayerCounts(trace.layers());
  if (memory.kv_blocks > 0) account_.emplace(metrics_, memory.kv_block);
}

// For parts that are made when all that it refers to is there.
ServerContext Server::context() {
  return {engine_,    scenario_, system_,           trace_,         costs_, timing_,
          resources_, metrics_,  options_.observer, options_.mirror};
}

engine::Process Server::serve() {
  for (;;) {
    if (!stream_.next(engine_.now(), pass_)) {
      if (!stream_.next_arrival()) break;
      co_await engine_.until(*stream_.next_arrival());
      continue;
    }
    begin_pass();
    if (account_ && submit_swaps()) {
      co_await engine_.finished(swaps_.graph);
      account(swaps_, -1);
    }
    for (std::size_t i = 0; i < scenario_.model.layers.size(); ++i) {
      if (scenario_.model.layers[i].stack != pass_.stack) continue;
      const auto number = static_cast<std::int32_t>(i);
      const double began = engine_.now();
      if (!skip_dense(dense_times_.dense(i).seconds)) {
        submit_dense(i);
        co_await engine_.finished(dense_.graph);
        account(dense_, number);
      }
      if (moe_numbers_[i] < 0) continue;

      const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[i]);
      route(moe_layer);
      prefetch(moe_layer);
      gather_experts(moe_layer);
      if (!skip_experts(dense_times_.shared(i).seconds)) {
        submit_experts(moe_layer, dense_times_.shared(i));
        co_await engine_.finished(layer_.graph);
        account(layer_, number);
      }
      if (LabelledGraph* const reduce = all_reduces_.after_experts()) {
        engine_.submit(reduce->graph, engine::kDemand);
        co_await engine_.finished(reduce->graph);
        account(*reduce, number);
      }
      if (predicts_) {  // the next layer's dense part has the same GPU
        const double end = engine_.now();
        co_await engine_.finished(prediction_.graph);
        metrics_.add_stall(Cause::prediction, engine_.now() - end, pass_.prompt);
        if (options_.observer) options_.observer->finished(prediction_, pass_number_, number);
      }
      finish_layer(moe_layer);
      if (!pass_.prompt) metrics_.layers.stall_s[moe_layer] += engine_.now() - began;
      show_memory();
    }
    submit_head();
    co_await engine_.finished(dense_.graph);
    account(dense_, -1);
    finish_pass();
  }
  metrics_.wall_s = engine_.now();
  if (account_) account_->finish(resident_share());
  if (const KvUse use = batching_->use(); use.running + use.waiting + use.swapped > 0)
    throw std::logic_error("requests wait for a KV cache that nothing will free");

  // What is still on its way is of no use any more; a read that has begun ends.
  if (!prefetcher_) co_return;
  prefetcher_->cancel_all();
  while (FetchSlot* const slot = prefetcher_->on_its_way()) {
    co_await engine_.finished(slot->load.graph);
    prefetcher_->drop(*slot);
  }
  prefetcher_->end();
}

void Server::begin_pass() {
  if (stream_.begins()) {
    kv_tokens_ = kv_encoded_ = 0;
    cache_.begin_request();
    if (prefetcher_) prefetcher_->begin_request();
  }
  if (prefetcher_) prefetcher_->begin_pass(pass_number_);
  if (account_) account_->begin(stream_.step(), batching_->use(), memory_.kv_blocks);
  if (pass_.stack == Stack::decoder) kv_tokens_ += pass_.tokens;
  kv_encoded_ += pass_.new_encoder_tokens;
  (scenario_.model.has_encoder() ? kv_encoded_ : kv_tokens_) += pass_.brought_tokens;
  show_memory();
  dense_times_.begin(pass_);
  all_reduces_.begin(pass_);
}

// The blocks of requests that give way leave before the pass, those of requests that go on come.
bool Server::submit_swaps() {
  const Bytes out = account_->swapped_out(), in = account_->swapped_in();
  if (out == Bytes(0) && in == Bytes(0)) return false;
  swaps_.clear();
  add_swaps(swaps_, out, in, {resources_.io, resources_.link_out}, timing_);
  engine_.submit(swaps_.graph, engine::kDemand);
  return true;
}

// Experts that the cache keeps whole, as a share of all.
double Server::resident_share() const {
  return static_cast<double>(cache_.whole_experts()) / (1.0 * experts_ * trace_.layers());
}

void Server::finish_pass() {
  const double now = engine_.now();
  const KvUse use = batching_->use();
  stream_.complete(now, metrics_, options_.observer);
  if (account_) account_->end(now, use, memory_.kv_blocks, [this] { return resident_share(); });
  if (options_.observer != nullptr) options_.observer->pass_ended(now, pass_number_, metrics_.tokens);
  if (options_.progress) options_.progress(metrics_.tokens);
  ++pass_number_;
}

void Server::show_memory() const {
  if (options_.observer == nullptr || !options_.observer->wants_memory()) return;
  MemoryContents memory;
  cache_.count(memory);
  memory.kv_bytes = account_ ? static_cast<double>(batching_->use().gpu_blocks) * memory_.kv_block.value()
                             : kv_tokens_ * kv_bytes_per_token(scenario_.model).value() +
                                   kv_encoded_ * cross_kv_bytes_per_token(scenario_.model).value();
  options_.observer->holds(engine_.now(), memory);
}

}  // namespace moelab
