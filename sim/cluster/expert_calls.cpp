#include "sim/cluster/expert_calls.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "models/tensor_parallel.hpp"

namespace moelab {

using engine::OpIndex;

namespace {

/// Of what ended a call to another GPU, or a load: how long it was at the GPU that computed it, in its queue
/// included. The operations of a way there and back follow one another.
double computing_seconds(const LabelledGraph& call) {
  OpIndex op = call.graph.last();
  while (call.labels[op].kind != OpKind::remote_experts && call.labels[op].kind != OpKind::execute) {
    assert(op > 0);
    --op;
  }
  return call.graph.end(op) - call.graph.ready(op);
}

}  // namespace

Bytes message_bytes(const Architecture& model, double tokens) {
  return all_reduce_bytes(model, tokens);
}

ExpertCalls::ExpertCalls(ClusterWorld& world, std::uint32_t server, HomeStore* store, Metrics& metrics)
    : world_(world),
      server_(server),
      home_gpu_(world.resources.servers[server].first_gpu),
      store_(store),
      metrics_(metrics),
      call_of_gpu_(world.resources.gpus.size(), kNone),
      call_of_expert_(world.plan.shape.experts, kNone),
      assigned_s_(world.resources.gpus.size(), 0) {}

void ExpertCalls::begin(const Pass& pass, std::uint32_t moe_layer, std::span<const ExpertUse> uses,
                        const KernelTime& shared) {
  pass_ = &pass;
  layer_ = moe_layer;
  shared_ = shared;
  left_.assign(uses.begin(), uses.end());
  brought_.clear();
}

ExpertCalls::Computing ExpertCalls::computing(std::uint32_t gpu, std::span<const ExpertUse> experts) const {
  const TimingModel& timing = *node_of(gpu).timing;
  const Architecture& model = world_.scenario.model;
  const auto distinct = static_cast<double>(experts.size());
  const double bytes = distinct * world_.plan.shape.expert_bytes, hand_over = timing.dispatch().value();
  if (timing.computes_on_cpu()) {
    Seconds seconds;
    for (const ExpertUse& use : experts) seconds += timing.expert(model, model.moe(), use.tokens);
    return {seconds.value() + distinct * hand_over, distinct * hand_over, bytes};
  }
  double activations = 0;
  for (const ExpertUse& use : experts) activations += use.tokens;
  return {timing.grouped_experts(model, distinct, activations).value() + hand_over, hand_over, bytes};
}

// Seconds until an expert's answer is back, with everything to itself.
double ExpertCalls::estimate(std::uint32_t gpu, const ExpertUse& use) const {
  const std::uint32_t to = world_.resources.server_of[gpu];
  const Bytes bytes = message_bytes(world_.scenario.model, use.tokens);
  const double network = world_.engine.flow_seconds(server_, to, bytes.value()) +
                         world_.engine.flow_seconds(to, server_, bytes.value());
  return network + computing(gpu, {&use, 1}).seconds + world_.system.host_per_call.value();
}

std::uint32_t ExpertCalls::choose_at_home(const ExpertUse& use) const {
  const auto gpus = static_cast<std::uint32_t>(world_.plan.shape.servers[server_].gpu_bytes.size());
  std::uint32_t best = kNone;
  for (std::uint32_t gpu = home_gpu_; gpu < home_gpu_ + gpus; ++gpu)
    if (world_.live.placement().on_gpu(gpu, layer_, use.object) &&
        (best == kNone || assigned_s_[gpu] < assigned_s_[best]))
      best = gpu;
  return best;
}

// What estimate() leaves out, as it is much the same wherever a call goes: latencies, and copies between GPUs
// and hosts.
double ExpertCalls::latencies_and_copies(std::uint32_t gpu, const ExpertUse& use) const {
  const Bytes bytes = message_bytes(world_.scenario.model, use.tokens);
  double seconds = 0;
  if (world_.resources.server_of[gpu] != server_)
    seconds += 2 * world_.scenario.cluster->profile.network.latency.value();
  for (const std::uint32_t end : {home_gpu_, gpu})
    if (world_.resources.gpus[end].link)
      seconds += (node_of(end).timing->store(bytes) + node_of(end).timing->load(bytes)).value();
  return seconds;
}

ExpertCalls::Way ExpertCalls::choose(const ExpertUse& use) {
  if (world_.live.placement().on_server(server_, layer_, use.object)) return {choose_at_home(use)};
  if (store_ == nullptr) return choose_for_missing(use);
  const bool there = store_->state(layer_, use.object) == State::F;
  if (there || world_.placed().execution == PlacedExecution::load) return {home_gpu_, true};
  return choose_for_missing(use);
}

ExpertCalls::Way ExpertCalls::choose_for_missing(const ExpertUse& use) {
  const auto holders = world_.live.placement().holders(layer_, use.object);
  const auto first =
      static_cast<std::size_t>(std::lower_bound(holders.begin(), holders.end(), home_gpu_) - holders.begin());
  Way best;
  double best_s = 0;
  for (std::size_t i = 0; i < std::min(kCandidates, holders.size()); ++i) {
    const std::uint32_t gpu = holders[(first + i) % holders.size()];
    const double seconds = assigned_s_[gpu] + estimate(gpu, use);
    if (best.gpu != kNone && seconds >= best_s) continue;
    best.gpu = gpu;
    best_s = seconds;
  }
  if (store_ != nullptr) {
    const double loaded_s = loading_s_ + store_->seconds(store_->state(layer_, use.object));
    const double computed_s = loaded_s + store_->execution_seconds(use.tokens);
    if (best.gpu == kNone || computed_s < sending_s_ + best_s + latencies_and_copies(best.gpu, use)) {
      loading_s_ = loaded_s;
      return {home_gpu_, true};
    }
    const Bytes bytes = message_bytes(world_.scenario.model, use.tokens);
    const std::uint32_t to = world_.resources.server_of[best.gpu];
    sending_s_ += std::max(world_.engine.flow_seconds(server_, to, bytes.value()),
                           world_.engine.flow_seconds(to, server_, bytes.value()));
  }
  if (best.gpu != kNone) assigned_s_[best.gpu] = best_s;
  return best;
}

ExpertCalls::Call& ExpertCalls::call_to(Way way) {
  std::uint32_t& number = way.loads ? call_that_loads_ : call_of_gpu_[way.gpu];
  if (number != kNone) return calls_[number];
  if (used_ == calls_.size()) calls_.emplace_back();
  Call& call = calls_[used_];
  number = static_cast<std::uint32_t>(used_++);
  call.gpu = way.gpu;
  call.loads = way.loads;
  call.experts.clear();
  call.activations = 0;
  call.tokens = 0;
  call.graph.clear();
  return call;
}

void ExpertCalls::send() {
  used_ = 0;
  last_ = nullptr;
  if (store_ != nullptr) store_->clear();
  if (shared_.seconds > 0) call_to({home_gpu_});
  std::size_t nowhere = 0;
  for (const ExpertUse& use : left_) {
    const Way way = choose(use);
    if (way.gpu == kNone) {
      left_[nowhere++] = use;
      continue;
    }
    Call& call = call_to(way);
    call.experts.push_back(use);
    call.activations += use.tokens;
    call_of_expert_[use.object] = way.loads ? call_that_loads_ : call_of_gpu_[way.gpu];
    if (way.loads) {
      loaded_ += store_->state(layer_, use.object) == State::F ? 0 : 1;
      store_->add(*pass_, layer_, use);
      brought_.push_back(use);
    } else if (store_ != nullptr && world_.resources.server_of[way.gpu] == server_) {
      metrics_.count_hit(State::F, layer_, pass_->prompt);
    }
    if (!way.loads && world_.resources.server_of[way.gpu] == server_)
      assigned_s_[way.gpu] += computing(way.gpu, {&use, 1}).seconds;
  }
  left_.resize(nowhere);
  count_tokens();
  for (std::size_t i = 0; i < used_; ++i) {
    Call& call = calls_[i];
    build(call);
    call.sent = world_.up[world_.resources.server_of[call.gpu]] != 0;
    // What goes to a server that is gone comes to nothing.
    if (!call.sent) call.graph.clear();
    world_.live.begin_call(call.gpu, call.graph);
    world_.engine.submit(call.graph.graph, engine::kDemand);
  }
  for (std::size_t i = 0; i < used_; ++i) {
    call_of_gpu_[calls_[i].gpu] = kNone;
    assigned_s_[calls_[i].gpu] = 0;
    for (const ExpertUse& use : calls_[i].experts) call_of_expert_[use.object] = kNone;
  }
  call_that_loads_ = kNone;
  loading_s_ = sending_s_ = 0;
  shared_ = {};
}

// How many distinct tokens each call is about.
void ExpertCalls::count_tokens() {
  if (world_.placed().call_per_expert) return;
  constexpr std::size_t kMostTopK = 64;
  std::array<std::uint32_t, kMostTopK> seen;
  for (const auto& [begin, end] : pass_->rows)
    for (std::uint64_t row = begin; row < end; ++row) {
      std::size_t calls = 0;
      for (const std::uint16_t expert : world_.rows.experts_of(row, layer_)) {
        const std::uint32_t number = call_of_expert_[expert];
        if (number == kNone || calls == kMostTopK) continue;
        if (std::find(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(calls), number) !=
            seen.begin() + static_cast<std::ptrdiff_t>(calls))
          continue;
        seen[calls++] = number;
        ++calls_[number].tokens;
      }
    }
}

OpIndex ExpertCalls::add(Call& call, engine::ResourceId resource, double seconds, OpKind kind,
                         OpIndex after) {
  engine::Graph& graph = call.graph.graph;
  const OpIndex op = graph.add(graph.lane(resource), seconds);
  call.graph.labels.push_back({kind});
  if (after != engine::kNoOp) graph.depend(op, after);
  return op;
}

OpIndex ExpertCalls::add_message(Call& call, std::uint32_t from, std::uint32_t to, double bytes,
                                 OpIndex after) {
  const double latency = world_.scenario.cluster->profile.network.latency.value();
  const OpIndex op = add(call, world_.resources.servers[from].nic, latency, OpKind::message, after);
  call.graph.graph.flow(op, from, to, bytes);
  return op;
}

// Over the link of a GPU with memory of its own. Elsewhere there is nothing to copy.
OpIndex ExpertCalls::add_copy(Call& call, std::uint32_t gpu, bool to_gpu, Bytes bytes, OpKind kind,
                              OpIndex after) {
  const std::optional<GpuLink>& link = world_.resources.gpus[gpu].link;
  if (!link) return after;
  const ServerNode& node = node_of(gpu);
  const double seconds = (to_gpu ? node.timing->load(bytes) : node.timing->store(bytes)).value();
  const OpIndex op = add(call, to_gpu ? link->in : link->out, seconds, kind, after);
  call.graph.labels[op].bytes = bytes.value();
  node.share_copy(call.graph.graph, op, seconds);
  return op;
}

OpIndex ExpertCalls::add_computing(Call& call, const Computing& work, OpKind kind, OpIndex after) {
  const OpIndex op = add(call, world_.resources.gpus[call.gpu].compute, work.seconds, kind, after);
  node_of(call.gpu).share_kernel(call.graph.graph, op, work.seconds - work.hand_overs, work.bytes);
  return op;
}

// There and back.
void ExpertCalls::add_chain(Call& call, double tokens, std::span<const ExpertUse> experts) {
  const ClusterResources& r = world_.resources;
  const std::uint32_t to = r.server_of[call.gpu];
  const Bytes bytes = message_bytes(world_.scenario.model, tokens);
  OpIndex last = engine::kNoOp;
  if (const Seconds software = world_.system.host_per_call; software > Seconds(0))
    last = add(call, r.servers[server_].host, software.value(), OpKind::host, last);
  last = add_copy(call, home_gpu_, false, bytes, OpKind::send, last);
  if (to != server_) last = add_message(call, server_, to, bytes.value(), last);
  last = add_copy(call, call.gpu, true, bytes, OpKind::send, last);
  last = add_computing(call, computing(call.gpu, experts), OpKind::remote_experts, last);
  last = add_copy(call, call.gpu, false, bytes, OpKind::receive, last);
  if (to != server_) last = add_message(call, to, server_, bytes.value(), last);
  add_copy(call, home_gpu_, true, bytes, OpKind::receive, last);
}

void ExpertCalls::build(Call& call) {
  call.graph.layer = layer_;
  if (call.loads) {
    store_->build(pass_->tokens, call.graph);
  } else if (call.gpu == home_gpu_) {
    Computing all{shared_.seconds, 0, shared_.bytes};
    if (shared_.seconds > 0) all.hand_overs = node_of(home_gpu_).timing->dispatch().value();
    if (call.activations > 0) {
      const Computing routed = computing(home_gpu_, call.experts);
      all = {all.seconds + routed.seconds, all.hand_overs + routed.hand_overs, all.bytes + routed.bytes};
    }
    add_computing(call, all, OpKind::grouped_experts, engine::kNoOp);
  } else if (world_.placed().call_per_expert) {
    for (const ExpertUse& use : call.experts) add_chain(call, use.tokens, {&use, 1});
  } else {
    add_chain(call, call.tokens, call.experts);
  }
}

void ExpertCalls::count(const Call& call) {
  if (world_.resources.server_of[call.gpu] == server_) {
    local_ += call.activations;
    return;
  }
  remote_ += call.activations;
  double tokens = call.tokens;
  remote_calls_ += world_.placed().call_per_expert ? call.experts.size() : 1;
  if (world_.placed().call_per_expert) tokens = call.activations;
  network_bytes_ += 2 * message_bytes(world_.scenario.model, tokens).value();
}

void ExpertCalls::settle() {
  double home_end = -1, away_end = -1, away_activations = 0;
  const LabelledGraph* away = nullptr;  // the call to another server that ended last
  for (std::size_t i = 0; i < used_; ++i) {
    Call& call = calls_[i];
    world_.live.end_call(call.gpu, call.graph);
    if (call.loads) store_->count(call.graph);
    const engine::Graph& graph = call.graph.graph;
    if (!call.sent || graph.started() < graph.size()) {
      left_.insert(left_.end(), call.experts.begin(), call.experts.end());
      continue;
    }
    if (last_ == nullptr || graph.finished_at() > last_->graph.finished_at()) last_ = &call.graph;
    count(call);
    const bool at_home = call.gpu == home_gpu_ && !call.loads;
    home_end = std::max(home_end, at_home ? graph.finished_at() : graph.submitted_at());
    if (world_.resources.server_of[call.gpu] == server_ && !call.loads) continue;
    if (away == nullptr || graph.finished_at() > away_end) {
      away_end = graph.finished_at();
      away = &call.graph;
    }
    away_activations += call.activations;
  }
  if (away != nullptr)
    world_.remote.add(world_.engine.now(), std::max(away_end - home_end, 0.0), computing_seconds(*away),
                      away_activations);
  used_ = 0;
}

void ExpertCalls::cancel() {
  for (std::size_t i = 0; i < used_; ++i) world_.engine.cancel(calls_[i].graph.graph);
}

}  // namespace moelab
