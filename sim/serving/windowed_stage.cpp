#include "sim/serving/windowed_stage.hpp"

#include <algorithm>

#include "models/tensor_parallel.hpp"
#include "policies/guard/guarded_policies.hpp"
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

/// Experts of a layer lie on its backends in their order: the first ones on the first.
engine::StoredExperts stored_experts(const StorageSplit& split) {
  const StorageShape& shape = split.shape();
  engine::StoredExperts stored;
  stored.experts = shape.experts;
  for (const StorageBackend& backend : shape.backends) stored.backends.push_back(backend.name);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    for (std::size_t k = 0; k < shape.backends.size(); ++k)
      stored.places.insert(stored.places.end(), split.experts(layer, k), static_cast<std::uint16_t>(k));
  return stored;
}

}  // namespace

WindowedStage::WindowedStage(ServerState& state, const Scenario& scenario, const SystemConfig& system,
                             const RoutingTrace& trace, const PagedPlan& plan,
                             const std::vector<ServedRequest>& requests, std::span<const double> profile,
                             engine::WindowMirror* mirror, const std::string& prefix)
    : state_(state),
      engine_(state.engine),
      scenario_(scenario),
      system_(system),
      trace_(trace),
      plan_(plan),
      mirror_(mirror),
      timing_(scenario.device),
      times_(scenario, system, timing_, trace),
      draft_times_(DraftTimes::make(scenario, system, timing_)),
      resources_(add_paged_resources(engine_, timing_, plan, times_.gpus(), prefix)),
      residency_(engine_, resources_, timing_, plan, system, static_cast<int>(scenario.gpus()),
                 largest_request(kv_shape(scenario, system, plan.memory), requests), state.observer),
      experts_(scenario, system, plan, profile, times_.gpus()),
      window_(engine_, resources_, timing_, plan, scenario.model.experts_or_none().matrices,
              static_cast<int>(scenario.gpus()), mirror),
      moe_numbers_(scenario.model.moe_numbers()),
      moe_layers_(scenario.model.moe_layers()),
      pass_(state.pass),
      metrics_(state.metrics),
      chain_(engine_),
      streams_(times_.gpus()),
      layer_uses_(trace.experts(), experts_.needs_scores()),
      used_(std::size_t{trace.layers()} * trace.experts(), 0),
      order_(times_.gpus()) {
  metrics_.layers = LayerCounts(scenario.model.moe_layers().size());
  if (mirror_ != nullptr) mirror_->store(stored_experts(plan.split));
  if (system.paging->fetch == PagingConfig::Fetch::ahead)
    fetches_ = std::make_unique<ExpertFetches>(engine_, resources_, timing_, plan, experts_,
                                               static_cast<int>(scenario.gpus()), metrics_);
  if (const auto* routing = find_routing_policy(system.routing.name); routing->needs_all_scores)
    routing_ = make_routing_policy(*routing, system.routing.parameters);
  if (routing_ || experts_.needs_all_scores()) gates_ = std::make_unique<StepGates>(trace);
}

// Of those pinned by a policy that learns, a copy is counted where it is stored.
double WindowedStage::resident_share() const {
  if (!plan_.pinned_for_good) return residency_.split().gpu_share();
  const double stored = plan_.experts - plan_.pinned;
  const double share = stored > 0 ? residency_.split().gpu_share() : 0;
  return (share * stored + plan_.pinned) / plan_.experts;
}

std::uint64_t WindowedStage::kv_blocks() const {
  return scenario_.data_parallel * residency_.kv_blocks();
}

void WindowedStage::between_steps() {
  residency_.adjust(state_.steps, compute_s_, *state_.batching, metrics_.serving);
}

StageWait WindowedStage::begin_drafting() {
  if (!draft_times_) return {};
  model_layer_ = -1;
  return submit_drafts() ? submitted() : StageWait{};
}

StageWait WindowedStage::begin_layer(std::size_t layer) {
  model_layer_ = static_cast<std::int32_t>(layer);
  load_ahead(layer);
  submit_layer(layer);
  return submitted();
}

StageWait WindowedStage::begin_head() {
  model_layer_ = -1;
  submit_head();
  return submitted();
}

/// Whether what comes next is one operation behind the other that nothing meets and no observer sees.
bool WindowedStage::may_chain() {
  if (state_.observer != nullptr || mirror_ != nullptr || times_.gpus() > 1 || waits_for_gate()) return false;
  const PagedGpu& r = resources_.gpus.front();
  const bool shares =
      r.memory != engine::kNoCapacity || r.cpu != engine::kNoCapacity || r.link != engine::kNoCapacity;
  return !shares && window_.any() == nullptr && engine_.alone();
}

/// What has been added is complete.
void WindowedStage::submit() {
  if (chained_)
    metrics_.add_stalls(chain_.run(), pass_.prompt);
  else
    engine_.submit(layer_.graph, engine::kDemand);
}

/// What there is to wait for.
StageWait WindowedStage::submitted() {
  if (!chained_) return {&layer_.graph};
  if (model_layer_ >= 0) finish_layer();
  return {};
}

StageWait WindowedStage::begin_end() {
  return cancel_load();
}

// What comes for a step that never is.
StageWait WindowedStage::cancel_load() {
  ending_load_ = fetches_ ? fetches_->any() : window_.any();
  if (ending_load_ != nullptr) {
    engine_.cancel(ending_load_->graph);
    return {&ending_load_->graph};
  }
  if (fetches_)
    fetches_->reap([this](const LabelledGraph& graph, std::uint32_t layer) { show_fetch(graph, layer); });
  count_bytes();
  return {};
}

// What the page cache had is read from the host's memory where that is another than the GPU's.
void WindowedStage::count_bytes() {
  const ServingCounts& c = metrics_.serving;
  const double copied = timing_.is_discrete() ? 0 : c.page_cache_bytes;
  metrics_.bytes[static_cast<std::size_t>(Tier::ssd)] = c.ssd_bytes;
  metrics_.bytes[static_cast<std::size_t>(Tier::page_cache)] = copied;
  metrics_.bytes[static_cast<std::size_t>(Tier::host)] =
      c.loaded_bytes + c.promoted_bytes - c.ssd_bytes - copied;
}

StageWait WindowedStage::next() {
  if (ending_load_ != nullptr) {
    if (!fetches_) window_.drop(*ending_load_);
    return cancel_load();
  }
  state_.account(layer_, model_layer_, waits_);
  if (at_gate_) {
    at_gate_ = false;
    submit_behind_gate(static_cast<std::size_t>(model_layer_));
    return {&layer_.graph};
  }
  if (model_layer_ >= 0) finish_layer();
  return {};
}

// How long each layer computes with its weights there.
void WindowedStage::begin_step() {
  engine::check_invariant(has_room(plan_.memory, scenario_, pass_), "a step's rows fit into what is planned");
  if (state_.stream->begins()) experts_.begin_request();
  times_.begin(pass_);
  compute_s_ = times_.step_seconds();
}

/// Whether any experts are to come into the window: as they lie now, where it matters only how many lie
/// where; else true.
bool WindowedStage::loads_any() {
  if (fetches_ || experts_.by_number() || looked_at_ == residency_.changes() + 1) return loads_;
  looked_at_ = residency_.changes() + 1;
  loads_ = false;
  for (std::size_t gpu = 0; gpu < streams_.size(); ++gpu)
    for (std::uint32_t layer = 0; layer < moe_layers_.size(); ++layer) {
      experts_.find_stream(residency_.split(), gpu, layer, streams_[gpu]);
      loads_ = loads_ || streams_[gpu].any();
    }
  return loads_;
}

// While a layer runs, the experts of the next MoE layer come into the other half of the window.
void WindowedStage::load_ahead(std::size_t layer) {
  if (system_.paging->fetch == PagingConfig::Fetch::used || moe_layers_.empty() || !loads_any()) return;
  if (moe_numbers_[layer] >= 0) load(static_cast<std::uint32_t>(moe_numbers_[layer]));
  const std::size_t layers = moe_numbers_.size();
  std::size_t next = (layer + 1) % layers;
  while (moe_numbers_[next] < 0) next = (next + 1) % layers;
  if (next != layer) load(static_cast<std::uint32_t>(moe_numbers_[next]));
}

void WindowedStage::load(std::uint32_t moe_layer) {
  if (fetches_) return load_by_use(moe_layer);
  if (window_.holds(moe_layer)) return;
  bool any = false;
  for (std::size_t gpu = 0; gpu < streams_.size(); ++gpu) {
    experts_.find_stream(residency_.split(), gpu, moe_layer, streams_[gpu]);
    any = any || streams_[gpu].any();
  }
  if (any) window_.load(moe_layer, streams_, metrics_.serving);
}

void WindowedStage::begin_graph() {
  chained_ = may_chain();
  if (chained_) return;
  layer_.clear();
  waits_.clear();
  last_.assign(times_.gpus(), engine::kNoOp);
}

void WindowedStage::add_behind(std::size_t gpu, OpIndex op) {
  if (last_[gpu] != engine::kNoOp) layer_.graph.depend(op, last_[gpu]);
  last_[gpu] = op;
}

void WindowedStage::add_kernel(std::size_t gpu, const KernelTime& time, OpKind kind) {
  engine::Graph& graph = layer_.graph;
  const PagedGpu& r = resources_.gpus[gpu];
  if (chained_) return chain_.add(r.compute, time.seconds, cause_of({kind}));
  const OpIndex op = graph.add(graph.lane(r.compute), time.seconds);
  if (r.memory != engine::kNoCapacity) {
    const double streaming = time.bytes / timing_.gpu_bandwidth().value();
    graph.share(op, r.memory, std::min(streaming, time.seconds), time.bytes);
  }
  if (r.cpu != engine::kNoCapacity)
    graph.share(op, r.cpu, std::max(0.0, time.seconds - timing_.dispatch().value()));
  layer_.labels.push_back({kind});
  add_behind(gpu, op);
}

// Each GPU takes part when all of them are there.
void WindowedStage::add_collective(const Collective& what) {
  if (what.seconds == 0) return;
  if (chained_) return chain_.add(resources_.gpus.front().collective, what.seconds, cause_of({what.kind}));
  engine::Graph& graph = layer_.graph;
  before_ = last_;
  for (std::size_t gpu = 0; gpu < last_.size(); ++gpu) {
    const PagedGpu& r = resources_.gpus[gpu];
    const OpIndex op = graph.add(graph.lane(r.collective), what.seconds);
    if (r.link != engine::kNoCapacity) graph.share(op, r.link, what.seconds, what.link_bytes);
    layer_.labels.push_back({what.kind});
    for (const OpIndex before : before_)
      if (before != engine::kNoOp) graph.depend(op, before);
    last_[gpu] = op;
  }
}

void WindowedStage::add_host(std::size_t gpu, double seconds) {
  if (seconds == 0) return;
  if (chained_) return chain_.add(resources_.gpus[gpu].host, seconds, Cause::host);
  const OpIndex op = layer_.graph.add(layer_.graph.lane(resources_.gpus[gpu].host), seconds);
  layer_.labels.push_back({OpKind::host});
  add_behind(gpu, op);
}

void WindowedStage::submit_layer(std::size_t layer) {
  begin_graph();
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) {
    add_host(gpu, system_.host_per_layer.value());
    const KernelTime& dense = times_.dense(gpu, layer);
    layer_.kernel = {dense.bytes, dense.flops, dense.kernels};
    add_kernel(gpu, dense, OpKind::dense);
  }
  for (int extra = all_reduces(scenario_.model.layers[layer]); extra > 1; --extra)
    add_collective(times_.all_reduce());
  experts_ops_.clear();
  const bool moe = moe_numbers_[layer] >= 0;
  at_gate_ = moe && waits_for_gate();
  if (moe && !at_gate_) {
    if (counts_uses()) route(layer);
    add_experts(layer);
  }
  if (!at_gate_) add_collective(times_.all_reduce());
  submit();
}

void WindowedStage::add_experts(std::size_t layer) {
  const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[layer]);
  layer_.layer = moe_layer;
  layer_.shared = times_.shared_work(layer);
  if (mirror_ != nullptr) tell_compute(moe_layer);
  add_collective(times_.dispatch());
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) {
    add_kernel(gpu, times_.experts(gpu, layer), OpKind::grouped_experts);
    if (!chained_) experts_ops_.push_back(last_[gpu]);
  }
  for (std::size_t gpu = 0; waits_for_gate() && gpu < times_.gpus(); ++gpu) {
    choose(gpu);
    fetches_ ? add_waits(gpu) : add_demand(gpu);
  }
  for (std::size_t gpu = 0; window_.holds(moe_layer) && gpu < times_.gpus(); ++gpu) {
    engine::Graph& load = window_.loading(moe_layer, gpu).graph;
    engine_.set_priority(load, engine::kDemand);
    layer_.graph.depend_on(experts_ops_[gpu], load);
    waits_.push_back({experts_ops_[gpu], &load});
  }
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) add_host(gpu, times_.gathering_s(gpu, layer));
  add_collective(times_.combine());
}

void WindowedStage::tell_compute(std::uint32_t moe_layer) {
  tokens_.assign(trace_.experts(), 0);
  for (const auto& [begin, end] : pass_.rows)
    for (std::uint64_t row = begin; row < end; ++row)
      for (const std::uint16_t expert : trace_.experts_of(row, moe_layer))
        if (expert != kNoExpert) ++tokens_[expert];
  mirror_->compute(moe_layer, tokens_);
}

void WindowedStage::finish_layer() {
  const std::int32_t number = moe_numbers_[static_cast<std::size_t>(model_layer_)];
  if (number < 0) return;
  const auto moe_layer = static_cast<std::uint32_t>(number);
  if (counts_uses()) learn_uses();
  if (fetches_)
    fetches_->release(moe_layer,
                      [this](const LabelledGraph& graph, std::uint32_t of) { show_fetch(graph, of); });
  if (!window_.holds(moe_layer)) return;
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) {
    const OpIndex op = experts_ops_[gpu];
    state_.show(window_.loading(moe_layer, gpu), model_layer_);
    window_.release(moe_layer, layer_.graph.start(op), layer_.graph.end(op), gpu);
  }
}

// Each GPU for the rows that it has. Whether any drafts.
bool WindowedStage::submit_drafts() {
  bool any = false;
  begin_graph();
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) {
    const KernelTime time = draft_times_->time(pass_.of_ranks.empty() ? pass_ : pass_.of_ranks[gpu]);
    if (time.seconds == 0) continue;
    layer_.kernel = {time.bytes, time.flops, time.kernels};
    add_kernel(gpu, time, OpKind::draft);
    any = true;
  }
  if (any) submit();
  return any;
}

void WindowedStage::submit_head() {
  begin_graph();
  for (std::size_t gpu = 0; gpu < times_.gpus(); ++gpu) {
    if (const KernelTime head = times_.head(gpu); head.seconds > 0) {
      layer_.kernel = {head.bytes, head.flops, head.kernels};
      add_kernel(gpu, head, OpKind::dense);
    }
    add_host(gpu, system_.host_per_pass.value());
  }
  submit();
}

void WindowedStage::end_step(const KvUse& use) {
  times_.count(metrics_.serving);
  if (state_.observer == nullptr) return;
  const double blocks = static_cast<double>(use.gpu_blocks) / scenario_.data_parallel;
  const double kv_bytes = blocks * plan_.memory.kv_block.value();
  state_.observer->holds(engine_.now(),
                         {{}, residency_.split().gpu_bytes() + experts_.pinned_bytes(), kv_bytes});
}

}  // namespace moelab
