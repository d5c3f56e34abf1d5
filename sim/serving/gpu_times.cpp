#include "sim/serving/gpu_times.hpp"

#include <algorithm>

#include "models/expert_parallel.hpp"
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
      gpus_(scenario.simulated_gpus()),
      moe_numbers_(scenario.model.moe_numbers()),
      experts_(scenario.model.layers.size(), std::vector<Experts>(gpus_)),
      expert_bytes_(expert_bytes_or_none(scenario.model).value()),
      divided_(scenario.expert_ranks() > 1),
      step_experts_(trace, divided_ ? gpus_ : 1) {
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
  step_experts_.begin(pass);
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

void GpuTimes::reroute(const Pass& pass, std::size_t layer, std::span<const ExpertUse> uses) {
  step_experts_.reroute(static_cast<std::size_t>(moe_numbers_[layer]), uses);
  for (std::size_t gpu = 0; gpu < gpus_; ++gpu) experts_[layer][gpu] = experts_of(gpu, pass, layer);
}

GpuTimes::Experts GpuTimes::experts_of(std::size_t gpu, const Pass& pass, std::size_t layer) {
  const FeedForward& ff = scenario_.model.layers[layer].feed_forward;
  const auto moe_layer = static_cast<std::size_t>(moe_numbers_[layer]);
  const double distinct = step_experts_.distinct(moe_layer, divided_ ? gpu : 0);
  Experts e{
      dense_of(gpu).shared(layer), distinct * system_.host_per_expert.value(),
      divided_ ? static_cast<double>(step_experts_.pairs(moe_layer, gpu)) : 1.0 * pass.tokens * ff.top_k};
  const bool single = divided_ ? pass.tokens == 1 : e.pairs <= ff.top_k;
  const Seconds routed = timing_.grouped_experts(scenario_.model, ff, distinct, e.pairs, single);
  e.time.seconds += (routed + timing_.dispatch()).value();
  e.time.bytes += distinct * expert_bytes_;
  return e;
}

void GpuTimes::count(ServingCounts& counts) const {
  for (std::size_t layer = 0; layer < moe_numbers_.size(); ++layer) {
    if (moe_numbers_[layer] < 0) continue;
    counts.exchanged_bytes += dispatch_.link_bytes + combine_.link_bytes;
    if (!divided_) continue;
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
