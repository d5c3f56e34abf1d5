#include "sim/cluster/placed_server.hpp"

#include <algorithm>

#include "sim/results/statistics.hpp"

namespace moelab {

using engine::OpIndex;

PlacedServer::PlacedServer(ClusterWorld& world, std::uint32_t number,
                           const std::vector<ServedRequest>& requests, ServingProgress progress)
    : world_(world),
      number_(number),
      node_(world.resources.servers[number]),
      gpu_(world.resources.gpus[node_.first_gpu].compute),
      observer_(world.observer == nullptr
                    ? nullptr
                    : world.observer->of_server(world.scenario.cluster->profile.servers[number].name + "/")),
      dense_times_(world.scenario.model, *node_.timing),
      moe_numbers_(world.scenario.model.moe_numbers()),
      calls_(world, number),
      layer_uses_(world.plan.shape.experts, false),
      progress_(std::move(progress)) {
  metrics_.layers = LayerCounts(world.scenario.model.moe_layers().size());
  start_stream(requests);
  serves_ = !requests.empty();
  if (serves_) ++world_.serving;
}

void PlacedServer::start_stream(const std::vector<ServedRequest>& requests) {
  stream_.reset();
  requests_ = requests;
  admitted_.assign(requests_.size(), 0);
  const PolicyChoice& policy = world_.system.batching->policy;
  batching_ = find_batching_policy(policy.name)->make(world_.plan.batching, policy.parameters);
  source_.emplace(requests_);
  stream_.emplace(*source_, world_.rows, *batching_);
}

engine::Process PlacedServer::serve() {
  engine::Engine& engine = world_.engine;
  const double retry = world_.placed().detection.value();
  while (!requests_.empty()) {
    if (gone()) {
      abandon();
      while (!world_.up[number_] && world_.may_return[number_]) co_await engine.until(engine.now() + retry);
      if (!world_.up[number_]) break;
      come_back();
      continue;
    }
    if (!stream_->next(engine.now(), pass_)) {
      if (!stream_->next_arrival()) break;
      co_await engine.until(*stream_->next_arrival());
      continue;
    }
    begin_step();
    for (std::size_t layer = 0; layer < moe_numbers_.size() && !gone(); ++layer) {
      const double began = engine.now();
      submit_dense(layer);
      co_await engine.finished(dense_.graph);
      account(dense_, static_cast<std::int32_t>(layer));
      if (moe_numbers_[layer] < 0 || gone()) continue;
      ask_experts(layer);
      do {
        calls_.send();
        for (std::size_t i = 0; i < calls_.size(); ++i) co_await engine.finished(calls_.call(i).graph);
        finish_stage(static_cast<std::int32_t>(layer));
        if (!calls_.left() || gone()) break;
        if (!world_.hopeful) gone_ = true;  // an expert that will never be back: nobody can be answered
        const double waited = engine.now();
        co_await engine.until(waited + retry);
        metrics_.stall_s[static_cast<std::size_t>(Cause::recovery)] += engine.now() - waited;
      } while (!gone());
      if (!pass_.prompt)
        metrics_.layers.stall_s[static_cast<std::size_t>(moe_numbers_[layer])] += engine.now() - began;
    }
    if (gone()) continue;
    submit_head();
    co_await engine.finished(dense_.graph);
    account(dense_, -1);
    if (!gone()) finish_step();
  }
  metrics_.wall_s = engine.now();
  result_.failed +=
      requests_.size() - static_cast<std::size_t>(std::count(admitted_.begin(), admitted_.end(), kFinished));
  if (serves_) --world_.serving;
}

void PlacedServer::leave() {
  gone_ = true;
  left_at_ = world_.engine.now();
  world_.engine.cancel(dense_.graph);
  calls_.cancel();
}

// Those under way fail; the others wait for the server to come back.
void PlacedServer::abandon() {
  std::vector<ServedRequest> others;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (admitted_[i] == kWaiting)
      others.push_back(requests_[i]);
    else if (admitted_[i] == kRunning)
      ++result_.failed;
  start_stream(others);
}

void PlacedServer::come_back() {
  gone_ = false;
  for (const ServedRequest& q : requests_)
    if (q.arrival_s >= left_at_ && q.arrival_s < world_.engine.now()) ++result_.delayed;
  left_at_ = world_.engine.now();
}

void PlacedServer::begin_step() {
  dense_times_.begin(pass_);
  ++step_;
  for (const std::uint32_t id : stream_->step().admitted) admitted_[id] = kRunning;
}

OpIndex PlacedServer::add(engine::ResourceId resource, double seconds, OpKind kind, OpIndex after) {
  if (seconds == 0) return after;
  const OpIndex op = dense_.graph.add(dense_.graph.lane(resource), seconds);
  dense_.labels.push_back({kind});
  if (after != engine::kNoOp) dense_.graph.depend(op, after);
  return op;
}

OpIndex PlacedServer::add_dense(const KernelTime& time, OpIndex after) {
  const OpIndex op = add(gpu_, time.seconds, OpKind::dense, after);
  if (time.seconds > 0)
    node_.share_kernel(dense_.graph, op, time.seconds - node_.timing->dispatch().value(), time.bytes);
  return op;
}

void PlacedServer::submit_dense(std::size_t layer) {
  dense_.clear();
  const OpIndex host = add(node_.host, world_.system.host_per_layer.value(), OpKind::host, engine::kNoOp);
  add_dense(dense_times_.dense(layer), host);
  world_.engine.submit(dense_.graph, engine::kDemand);
}

void PlacedServer::submit_head() {
  dense_.clear();
  const OpIndex head = add_dense(dense_times_.head(), engine::kNoOp);
  add(node_.host, world_.system.host_per_pass.value(), OpKind::host, head);
  world_.engine.submit(dense_.graph, engine::kDemand);
}

void PlacedServer::ask_experts(std::size_t layer) {
  const auto moe_layer = static_cast<std::uint32_t>(moe_numbers_[layer]);
  const std::span<const ExpertUse> uses = layer_uses_.collect(world_.rows, pass_, moe_layer);
  for (const ExpertUse& use : uses) world_.uses.add(number_, moe_layer, use.object, use.tokens);
  calls_.begin(pass_, moe_layer, uses, dense_times_.shared(layer));
}

void PlacedServer::account(const LabelledGraph& graph, std::int32_t layer) {
  metrics_.add_stalls(critical_path(graph, {}), pass_.prompt);
  if (observer_ != nullptr) observer_->finished(graph, step_ - 1, layer);
}

void PlacedServer::finish_stage(std::int32_t layer) {
  const std::size_t calls = calls_.size();
  calls_.settle();
  for (std::size_t i = 0; i < calls; ++i) {
    LabelledGraph& call = calls_.call(i);
    if (&call == calls_.last())
      account(call, layer);
    else if (observer_ != nullptr)
      observer_->finished(call, step_ - 1, layer);
  }
}

void PlacedServer::finish_step() {
  const double now = world_.engine.now();
  for (const std::uint32_t id : stream_->step().finished) admitted_[id] = kFinished;
  stream_->complete(now, metrics_, observer_);
  result_.local_share.add(now, calls_.local_activations() - counted_local_,
                          calls_.remote_activations() - counted_remote_);
  counted_local_ = calls_.local_activations();
  counted_remote_ = calls_.remote_activations();
  if (observer_ != nullptr) observer_->pass_ended(now, step_ - 1, metrics_.tokens);
  if (progress_) progress_(metrics_.tokens);
}

ServerResult PlacedServer::result() const {
  ServerResult r = result_;
  r.name = world_.scenario.cluster->profile.servers[number_].name;
  r.gpus = static_cast<std::uint32_t>(world_.plan.shape.servers[number_].gpu_bytes.size());
  for (std::uint32_t gpu = node_.first_gpu; gpu < node_.first_gpu + r.gpus; ++gpu) {
    r.expert_bytes += world_.plan.shape.servers[number_].gpu_bytes[gpu - node_.first_gpu];
    r.experts += world_.live.placement().held(gpu);
    r.busy_s += world_.engine.busy_seconds(world_.resources.gpus[gpu].compute);
  }
  r.requests = metrics_.end_to_end_s.size();
  const Summary whole = summarize(metrics_.end_to_end_s);
  r.end_to_end_s = whole.mean;
  r.end_to_end_p90_s = whole.p90;
  r.ttft_s = mean(metrics_.ttft_s);
  r.local_activations = calls_.local_activations();
  r.remote_activations = calls_.remote_activations();
  r.remote_calls = calls_.remote_calls();
  r.network_bytes = calls_.network_bytes();
  return r;
}

}  // namespace moelab
