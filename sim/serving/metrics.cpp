#include "sim/serving/metrics.hpp"

#include <algorithm>

namespace moelab {

Cause cause_of(const OpLabel& label) {
  switch (label.kind) {
    case OpKind::read_sm:
    case OpKind::read_e:
    case OpKind::read_tensor:
      if (label.tier == Tier::host) return label.low_score ? Cause::low_score_load : Cause::expert_load;
      return label.tier == Tier::page_cache ? Cause::page_cache_read : Cause::ssd_read;
    case OpKind::decompress:
    case OpKind::decode:
      return Cause::decompress;
    case OpKind::recover:
      return Cause::recover;
    case OpKind::execute:
    case OpKind::shared_expert:
    case OpKind::grouped_experts:
      return Cause::expert_compute;
    case OpKind::dense:
      return Cause::dense_compute;
    case OpKind::host:
    case OpKind::remap:
      return Cause::host;
    case OpKind::all_reduce:
      return Cause::all_reduce;
    case OpKind::swap_in:
    case OpKind::swap_out:
      return Cause::kv_swap;
    case OpKind::load:
    case OpKind::promote:
      return Cause::expert_load;
    case OpKind::cpu_execute:
      return Cause::cpu_experts;
    case OpKind::send:
    case OpKind::receive:
      return Cause::activations;
    case OpKind::predict:
      return Cause::prediction;
    case OpKind::wait:
      return Cause::prefetch;
    case OpKind::message:
      return Cause::network;
    case OpKind::remote_experts:
      return Cause::remote_experts;
    case OpKind::migrate:
      return Cause::expert_load;
    case OpKind::dispatch:
    case OpKind::combine:
      return Cause::exchange;
    case OpKind::draft:
      return Cause::drafting;
  }
  return Cause::host;
}

void ServingCounts::add(const ServingCounts& other) {
  steps += other.steps;
  rows += other.rows;
  recomputed += other.recomputed;
  swapped_out += other.swapped_out;
  dropped += other.dropped;
  swap_in_bytes += other.swap_in_bytes;
  swap_out_bytes += other.swap_out_bytes;
  decoded_bytes += other.decoded_bytes;
  loaded_bytes += other.loaded_bytes;
  promoted_bytes += other.promoted_bytes;
  ssd_bytes += other.ssd_bytes;
  page_cache_bytes += other.page_cache_bytes;
  moved_experts += other.moved_experts;
  most_blocks = std::max(most_blocks, other.most_blocks);
  most_kv_use = std::max(most_kv_use, other.most_kv_use);
  mean_pairs += other.mean_pairs;
  most_pairs += other.most_pairs;
  exchanged_bytes += other.exchanged_bytes;
}

void ServingSeries::add(ServingSample sample) {
  finish(sample);
  if (samples_.size() < kMost) return;
  stride_ *= 2;
  for (std::size_t i = 0; i < kMost / 2; ++i) {
    const ServingSample& first = samples_[2 * i];
    ServingSample both = samples_[2 * i + 1];
    both.begin_s = first.begin_s;
    both.tokens += first.tokens;
    both.swap_in_bytes += first.swap_in_bytes;
    both.swap_out_bytes += first.swap_out_bytes;
    samples_[i] = both;
  }
  samples_.resize(kMost / 2);
}

LayerCounts::LayerCounts(std::size_t layers) : stall_s(layers, 0.0) {
  for (auto& found : hits) found.assign(layers, 0);
}

void LayerCounts::add(const LayerCounts& other) {
  if (stall_s.size() < other.stall_s.size()) *this = LayerCounts(other.stall_s.size());
  for (std::size_t layer = 0; layer < other.stall_s.size(); ++layer) {
    for (std::size_t s = 0; s < kStates; ++s) hits[s][layer] += other.hits[s][layer];
    stall_s[layer] += other.stall_s[layer];
  }
}

void ServingSeries::finish(ServingSample sample) {
  sample.begin_s = samples_.empty() ? 0 : samples_.back().time_s;
  samples_.push_back(sample);
}

void Metrics::add_stall(Cause cause, double seconds, bool prompt) {
  const auto i = static_cast<std::size_t>(cause);
  stall_s[i] += seconds;
  if (!prompt) decode_stall_s[i] += seconds;
}

void Metrics::add_stalls(const std::array<double, kCauses>& seconds, bool prompt) {
  for (std::size_t i = 0; i < kCauses; ++i) add_stall(static_cast<Cause>(i), seconds[i], prompt);
}

namespace {

// The link takes one load at a time: what one waits for it goes to those that it waits for.
void add_waiting_for_link(const LabelledGraph& g, engine::OpIndex waiting, double ready,
                          std::array<double, kCauses>& by_cause) {
  double begin = ready;  // of the waiting load, in the end
  for (engine::OpIndex op = 0; op < g.graph.size(); ++op) {
    if (op == waiting || g.labels[op].tier != Tier::host || !g.graph.was_started(op)) continue;
    const double end = g.graph.end_since_epoch(op);
    if (end <= ready || end >= g.graph.end_since_epoch(waiting)) continue;
    const double seconds = end - std::max(ready, end - (g.graph.end(op) - g.graph.start(op)));
    by_cause[static_cast<std::size_t>(cause_of(g.labels[op]))] += seconds;
    begin += seconds;
  }
  by_cause[static_cast<std::size_t>(cause_of(g.labels[waiting]))] += g.graph.end_since_epoch(waiting) - begin;
}

}  // namespace

Metrics::Metrics() = default;
Metrics::Metrics(const Metrics&) = default;
Metrics::Metrics(Metrics&&) noexcept = default;
Metrics& Metrics::operator=(const Metrics&) = default;
Metrics& Metrics::operator=(Metrics&&) noexcept = default;
Metrics::~Metrics() = default;

std::array<double, kCauses> critical_path(const LabelledGraph& g, std::span<const FetchWait> waits) {
  std::array<double, kCauses> by_cause{};
  for (engine::OpIndex op = g.graph.last(); op != engine::kNoOp;) {
    const engine::OpIndex before = g.graph.last_dependency(op);
    double ready =
        before == engine::kNoOp ? g.graph.submitted_since_epoch() : g.graph.end_since_epoch(before);
    double fetched = ready;  // of the fetches that it waits for, the last
    for (const FetchWait& wait : waits)
      if (before == engine::kNoOp && wait.op == op)
        fetched = std::max(fetched, wait.fetch->finished_since_epoch());
    by_cause[static_cast<std::size_t>(Cause::prefetch)] += fetched - ready;
    ready = fetched;
    if (g.labels[op].tier == Tier::host)
      add_waiting_for_link(g, op, ready, by_cause);
    else
      by_cause[static_cast<std::size_t>(cause_of(g.labels[op]))] += g.graph.end_since_epoch(op) - ready;
    op = before;
  }
  return by_cause;
}

}  // namespace moelab
