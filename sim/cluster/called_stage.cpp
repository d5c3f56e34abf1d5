#include "sim/cluster/called_stage.hpp"

#include <algorithm>

#include "policies/guard/guarded_policies.hpp"
#include "sim/results/statistics.hpp"

namespace moelab {

using engine::OpIndex;

CalledStage::CalledStage(ServerState& state, ClusterWorld& world, std::uint32_t number,
                         const std::vector<ServedRequest>& requests)
    : state_(state),
      world_(world),
      number_(number),
      node_(world.resources.servers[number]),
      gpu_(world.resources.gpus[node_.first_gpu].compute),
      dense_times_(world.scenario.model, *node_.timing),
      draft_times_(DraftTimes::make(world.scenario, world.system, *node_.timing)),
      moe_numbers_(world.scenario.model.moe_numbers()),
      store_(world.placed().loads() ? std::make_unique<HomeStore>(world, number, state.metrics) : nullptr),
      calls_(world, number, store_.get(), state.metrics),
      layer_uses_(world.plan.shape.experts, false) {
  state.metrics.layers = LayerCounts(world.scenario.model.moe_layers().size());
  if (store_ != nullptr) world_.stores.push_back(store_.get());
  start_stream(requests);
  serves_ = !requests.empty();
  if (serves_) ++world_.serving;
}

void CalledStage::start_stream(const std::vector<ServedRequest>& requests) {
  requests_ = requests;
  admitted_.assign(requests_.size(), kWaiting);
  const PolicyChoice& policy = world_.system.batching->policy;
  source_.emplace(requests_);
  state_.serve(
      *source_, world_.rows,
      make_batching_policy(*find_batching_policy(policy.name), world_.plan.batching, policy.parameters),
      drafts_of(world_.scenario, number_));
}

StageWait CalledStage::begin_drafting() {
  if (!draft_times_ || gone_) return {};
  const KernelTime time = draft_times_->time(state_.pass);
  if (time.seconds == 0) return {};
  part_ = Part::head;  // what follows is as little
  dense_.clear();
  add_dense(time, engine::kNoOp, OpKind::draft);
  world_.engine.submit(dense_.graph, engine::kDemand);
  return {&dense_.graph};
}

StageWait CalledStage::begin_layer(std::size_t layer) {
  model_layer_ = layer;
  part_ = Part::dense;
  submit_dense(layer);
  return {&dense_.graph};
}

StageWait CalledStage::begin_head() {
  part_ = Part::head;
  submit_head();
  return {&dense_.graph};
}

StageWait CalledStage::begin_end() {
  result_.failed +=
      requests_.size() - static_cast<std::size_t>(std::count(admitted_.begin(), admitted_.end(), kFinished));
  if (serves_) --world_.serving;
  world_.changes.ring();
  return {};
}

StageWait CalledStage::next() {
  switch (part_) {
    case Part::dense:
      state_.account(dense_, static_cast<std::int32_t>(model_layer_));
      if (moe_numbers_[model_layer_] < 0 || gone_) return {};
      ask_experts(model_layer_);
      return call_experts();
    case Part::calls:
      return next_call();
    case Part::recovery:
      if (gone_) return {};
      state_.metrics.stall_s[static_cast<std::size_t>(Cause::recovery)] += world_.engine.now() - waits_since_;
      return call_experts();
    case Part::head:
      state_.account(dense_, -1);
      return {};
  }
  return {};
}

StageWait CalledStage::call_experts() {
  part_ = Part::calls;
  awaited_ = 0;
  calls_.send();
  return next_call();
}

// When all have ended: experts that no server holds are called again once one may.
StageWait CalledStage::next_call() {
  if (awaited_ < calls_.size()) return {&calls_.call(awaited_++).graph};
  finish_calls();
  if (gone_) return {};
  if (!calls_.left()) {
    keep_what_came();
    return {};
  }
  if (!world_.hopeful) gone_ = true;  // an expert that will never be back: no request can be answered
  part_ = Part::recovery;
  waits_since_ = world_.engine.now();
  return {nullptr, look_again()};
}

void CalledStage::leave() {
  gone_ = true;
  left_at_ = world_.engine.now();
  world_.engine.cancel(dense_.graph);
  calls_.cancel();
  if (store_ != nullptr) store_->restart();
}

StageWait CalledStage::away() {
  if (!abandoned_) abandon();
  if (world_.up[number_]) {
    come_back();
    return {};
  }
  if (!world_.may_return[number_]) return {};
  return {nullptr, look_again()};
}

// Those under way fail; the others wait for the server to come back.
void CalledStage::abandon() {
  std::vector<ServedRequest> others;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (admitted_[i] == kWaiting)
      others.push_back(requests_[i]);
    else if (admitted_[i] == kRunning)
      ++result_.failed;
  state_.stream->abandon(state_.metrics);
  start_stream(others);
  abandoned_ = true;
}

void CalledStage::come_back() {
  gone_ = abandoned_ = false;
  for (const ServedRequest& q : requests_)
    if (q.arrival_s >= left_at_ && q.arrival_s < world_.engine.now()) ++result_.delayed;
  left_at_ = world_.engine.now();
}

void CalledStage::begin_step() {
  dense_times_.begin(state_.pass);
  gathering_s_ = 0;
  if (store_ != nullptr && state_.stream->begins()) store_->begin_batch();
  for (const std::uint32_t id : state_.stream->step().admitted) admitted_[id] = kRunning;
}

OpIndex CalledStage::add(engine::ResourceId resource, double seconds, OpKind kind, OpIndex after) {
  if (seconds == 0) return after;
  const OpIndex op = dense_.graph.add(dense_.graph.lane(resource), seconds);
  dense_.labels.push_back({kind});
  if (after != engine::kNoOp) dense_.graph.depend(op, after);
  return op;
}

OpIndex CalledStage::add_dense(const KernelTime& time, OpIndex after, OpKind kind) {
  const OpIndex op = add(gpu_, time.seconds, kind, after);
  if (time.seconds > 0)
    node_.share_kernel(dense_.graph, op, std::max(0.0, time.seconds - node_.timing->dispatch().value()),
                       time.bytes);
  return op;
}

void CalledStage::submit_dense(std::size_t layer) {
  dense_.clear();
  const double seconds = gathering_s_ + world_.system.host_per_layer.value();
  gathering_s_ = 0;
  const OpIndex host = add(node_.host, seconds, OpKind::host, engine::kNoOp);
  add_dense(dense_times_.dense(layer), host);
  world_.engine.submit(dense_.graph, engine::kDemand);
}

void CalledStage::submit_head() {
  dense_.clear();
  const OpIndex gathered = add(node_.host, gathering_s_, OpKind::host, engine::kNoOp);
  gathering_s_ = 0;
  const OpIndex head = add_dense(dense_times_.head(), gathered);
  add(node_.host, world_.system.host_per_pass.value(), OpKind::host, head);
  world_.engine.submit(dense_.graph, engine::kDemand);
}

void CalledStage::ask_experts(std::size_t layer) {
  const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[layer]);
  const std::span<const ExpertUse> uses = layer_uses_.collect(world_.rows, state_.pass, moe_layer);
  for (const ExpertUse& use : uses) world_.uses.add(number_, moe_layer, use.object, use.tokens);
  gathering_s_ = static_cast<double>(uses.size()) * world_.system.host_per_expert.value();
  if (store_ != nullptr) store_->begin_layer(state_.pass, moe_layer);
  calls_.begin(state_.pass, moe_layer, uses, dense_times_.shared(layer));
}

void CalledStage::finish_calls() {
  const auto layer = static_cast<std::int32_t>(model_layer_);
  const std::size_t calls = calls_.size();
  calls_.settle();
  for (std::size_t i = 0; i < calls; ++i) {
    LabelledGraph& call = calls_.call(i);
    if (&call == calls_.last())
      state_.account(call, layer);
    else
      state_.show(call, layer);
  }
}

void CalledStage::keep_what_came() {
  if (store_ == nullptr) return;
  const auto layer = static_cast<std::uint32_t>(moe_numbers_[model_layer_]);
  // Where a call failed, it was made again, and what it brought is listed once more, behind the others.
  brought_.assign(calls_.brought().begin(), calls_.brought().end());
  std::sort(brought_.begin(), brought_.end(),
            [](const ExpertUse& a, const ExpertUse& b) { return a.object < b.object; });
  brought_.erase(std::unique(brought_.begin(), brought_.end(),
                             [](const ExpertUse& a, const ExpertUse& b) { return a.object == b.object; }),
                 brought_.end());
  store_->end_layer(layer, brought_);
}

void CalledStage::end_step(const KvUse&) {
  for (const std::uint32_t id : state_.stream->ends()) admitted_[id] = kFinished;
  result_.local_share.add(world_.engine.now(), calls_.local_activations() - counted_local_,
                          calls_.remote_activations() - counted_remote_);
  counted_local_ = calls_.local_activations();
  counted_remote_ = calls_.remote_activations();
}

ServerResult CalledStage::result() const {
  ServerResult r = result_;
  r.name = world_.scenario.cluster->profile.servers[number_].name;
  r.gpus = static_cast<std::uint32_t>(world_.plan.shape.servers[number_].gpu_bytes.size());
  for (std::uint32_t gpu = node_.first_gpu; gpu < node_.first_gpu + r.gpus; ++gpu) {
    r.expert_bytes += world_.plan.shape.servers[number_].gpu_bytes[gpu - node_.first_gpu];
    r.experts += world_.live.placement().held(gpu);
    r.busy_s += world_.engine.busy_seconds(world_.resources.gpus[gpu].compute);
  }
  const Metrics& metrics = state_.metrics;
  r.requests = metrics.end_to_end_s.size();
  const Summary whole = summarize(metrics.end_to_end_s);
  r.end_to_end_s = whole.mean;
  r.end_to_end_p90_s = whole.p90;
  r.ttft_s = mean(metrics.ttft_s);
  r.local_activations = calls_.local_activations();
  r.remote_activations = calls_.remote_activations();
  r.remote_calls = calls_.remote_calls();
  if (store_ != nullptr) {
    r.loaded_experts = static_cast<std::int64_t>(calls_.loaded_experts());
    if (world_.system.cache.name != "none")
      r.cached_experts = static_cast<std::int64_t>(store_->experts_held());
  }
  r.network_bytes = calls_.network_bytes();
  return r;
}

}  // namespace moelab
