#include "sim/serving/gpu_times.hpp"

#include <algorithm>

#include "models/tensor_parallel.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/paged_resources.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

GpuTimes::GpuTimes(const Scenario& scenario, const SystemConfig& system, const TimingModel& timing,
                   const RoutingTrace& trace)
    : scenario_(scenario),
      system_(system),
      timing_(timing),
      trace_(trace),
      gpus_(scenario.simulated_gpus()),
      moe_numbers_(scenario.model.moe_numbers()),
      experts_(scenario.model.layers.size(), std::vector<Experts>(gpus_)),
      expert_bytes_(expert_bytes_or_none(scenario.model).value()),
      touched_(std::size_t{trace.layers()} * trace.experts()),
      uses_(scenario.expert_ranks() > 1 ? touched_.size() : 0) {
  for (std::uint32_t rank = 0; rank < scenario.data_parallel; ++rank)
    dense_.emplace_back(scenario.model, timing);
}

/// What the GPU has that has most.
template <class Amount>
double GpuTimes::most(Amount amount) const {
  double largest = 0;
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) largest = std::max(largest, amount(gpu));
  return largest;
}

void GpuTimes::begin(const Pass& pass) {
  begin_rows(pass);
  begin_exchanges(pass);
  count_uses(pass);
  step_s_ = most([&](std::size_t gpu) { return head(gpu).seconds; }) + system_.host_per_pass.value();
  for (std::size_t layer = 0; layer < moe_numbers_.size(); ++layer) {
    if (moe_numbers_[layer] >= 0) {
      for (std::size_t gpu = 0; gpu < gpus_; ++gpu) experts_[layer][gpu] = experts_of(gpu, pass, layer);
    }
    step_s_ += layer_seconds(layer);
  }
}

void GpuTimes::begin_rows(const Pass& pass) {
  if (dense_.size() == 1) return dense_.front().begin(pass, pass.tokens);
  for (std::size_t rank = 0; rank < dense_.size(); ++rank) {
    if (pass.of_ranks[rank].tokens > 0) {
      dense_[rank].begin(pass.of_ranks[rank], pass.tokens);
    } else {
      Pass idle;
      idle.tokens = 1;
      idle.runs.push_back({.first = 1});
      dense_[rank].begin(idle, pass.tokens);
    }
  }
}

// Each exchange takes as long as if every GPU brought as many rows as the one that has most: so many pass
// each link, and vLLM fills up to so many where it replays graphs of kernels.
void GpuTimes::begin_exchanges(const Pass& pass) {
  const auto tensor = static_cast<int>(scenario_.tensor_parallel);
  const Bytes reduced = all_reduce_bytes(scenario_.model, pass.tokens);
  all_reduce_ = {OpKind::all_reduce, timing_.all_reduce(tensor, reduced).value(),
                 ring_bytes(tensor, reduced.value())};
  if (scenario_.data_parallel == 1) return;
  double rows = 1;
  for (const Pass& own : pass.of_ranks) rows = std::max<double>(rows, own.tokens);
  const auto ranks = static_cast<int>(scenario_.data_parallel);
  const auto exchange = [&](OpKind kind, Bytes each) {
    return Collective{kind, timing_.exchange(ranks, each).value(), (ranks - 1) * each.value()};
  };
  dispatch_ = exchange(OpKind::dispatch, dispatch_bytes(scenario_.model, rows));
  combine_ = exchange(OpKind::combine, combine_bytes(scenario_.model, rows));
}

// Most of what a run of many requests takes: the trace is read in its order, a row's layers one after the
// other, and a byte an expert is written without being read before, so that no expert waits for the one
// before it.
void GpuTimes::count_uses(const Pass& pass) {
  std::fill(touched_.begin(), touched_.end(), 0);
  std::fill(uses_.begin(), uses_.end(), 0);
  const std::size_t experts = trace_.experts(), k = trace_.top_k();
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row) {
      const std::span<const std::uint16_t> chosen = trace_.experts_of(row);
      std::uint8_t* touched = touched_.data();
      for (std::size_t i = 0; i < chosen.size(); i += k, touched += experts)
        for (const std::uint16_t expert : chosen.subspan(i, k))
          if (expert != kNoExpert) touched[expert] = 1;
      if (uses_.empty()) continue;
      std::uint32_t* uses = uses_.data();
      for (std::size_t i = 0; i < chosen.size(); i += k, uses += experts)
        for (const std::uint16_t expert : chosen.subspan(i, k))
          if (expert != kNoExpert) ++uses[expert];
    }
}

void GpuTimes::reroute(const Pass& pass, std::size_t layer, std::span<const ExpertUse> uses) {
  const std::size_t first = first_of(layer), experts = trace_.experts();
  std::fill_n(touched_.begin() + static_cast<std::ptrdiff_t>(first), experts, 0);
  if (!uses_.empty()) std::fill_n(uses_.begin() + static_cast<std::ptrdiff_t>(first), experts, 0);
  for (const ExpertUse& use : uses) {
    touched_[first + use.object] = 1;
    if (!uses_.empty()) uses_[first + use.object] = use.tokens;
  }
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) experts_[layer][gpu] = experts_of(gpu, pass, layer);
}

/// Of a layer with experts, in what counts them all.
std::size_t GpuTimes::first_of(std::size_t layer) const {
  return static_cast<std::size_t>(moe_numbers_[layer]) * trace_.experts();
}

/// Experts that the GPU has of a layer.
ExpertRange GpuTimes::own_of(std::size_t gpu) const {
  return experts_of_rank(static_cast<int>(trace_.experts()), static_cast<int>(gpus_), static_cast<int>(gpu));
}

/// Routed experts of a layer that the step touches.
double GpuTimes::distinct_of(std::size_t gpu, std::size_t layer) const {
  const auto first = static_cast<std::ptrdiff_t>(first_of(layer));
  if (uses_.empty()) {
    const auto touched = touched_.begin() + first;
    return static_cast<double>(std::count(touched, touched + trace_.experts(), 1));
  }
  const ExpertRange own = own_of(gpu);
  const auto uses = uses_.begin() + first + own.first;
  return static_cast<double>(own.count - std::count(uses, uses + own.count, 0U));
}

GpuTimes::Experts GpuTimes::experts_of(std::size_t gpu, const Pass& pass, std::size_t layer) {
  const FeedForward& ff = scenario_.model.layers[layer].feed_forward;
  const double distinct = distinct_of(gpu, layer);
  Experts e{dense_of(gpu).shared(layer), distinct * system_.host_per_expert.value(),
            1.0 * pass.tokens * ff.top_k};
  Seconds routed;
  if (uses_.empty()) {
    routed = timing_.grouped_experts(scenario_.model, ff, distinct, e.pairs, e.pairs <= ff.top_k);
  } else {
    const ExpertRange own = own_of(gpu);
    e.pairs = 0;
    for (int i = 0; i < own.count; ++i)
      e.pairs += uses_[first_of(layer) + static_cast<std::size_t>(own.first + i)];
    routed = timing_.grouped_experts(scenario_.model, ff, distinct, e.pairs, pass.tokens == 1);
  }
  e.time.seconds += (routed + timing_.dispatch()).value();
  e.time.bytes += distinct * expert_bytes_;
  return e;
}

void GpuTimes::count(ServingCounts& counts) const {
  for (std::size_t layer = 0; layer < moe_numbers_.size(); ++layer) {
    if (moe_numbers_[layer] < 0) continue;
    counts.exchanged_bytes += dispatch_.link_bytes + combine_.link_bytes;
    if (uses_.empty()) continue;
    counts.most_pairs += most([&](std::size_t gpu) { return pairs(gpu, layer); });
    for (std::size_t gpu = 0; gpu < gpus_; ++gpu)
      counts.mean_pairs += pairs(gpu, layer) / static_cast<double>(gpus_);
  }
}

KernelTime GpuTimes::head(std::size_t gpu) const {
  return dense_[dense_.size() > 1 ? gpu : 0].head();
}

double GpuTimes::layer_seconds(std::size_t layer) {
  const bool moe = moe_numbers_[layer] >= 0;
  const double reduces = all_reduces(scenario_.model.layers[layer]) * all_reduce_.seconds;
  return system_.host_per_layer.value() + most([&](std::size_t gpu) { return gathering_s(gpu, layer); }) +
         most([&](std::size_t gpu) { return dense(gpu, layer).seconds; }) +
         most([&](std::size_t gpu) { return experts(gpu, layer).seconds; }) +
         (reduces + (moe ? dispatch_.seconds + combine_.seconds : 0));
}

}  // namespace moelab
