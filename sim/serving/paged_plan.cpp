#include "sim/serving/paged_plan.hpp"

#include <algorithm>
#include <cmath>

#include "models/expert_parallel.hpp"
#include "models/input_error.hpp"
#include "models/tensor_parallel.hpp"
#include "policies/cache/cache.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "policies/guard/policy_error.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/kv_pressure.hpp"

namespace moelab {
namespace {

/// Layers that the window has room for: one is filled while the other computes.
double window_layers(const PagingConfig& paging) {
  return paging.fetch == PagingConfig::Fetch::used ? 1 : 2;
}

/// Of large transfers, bytes a second.
double link_rate(const TimingModel& timing) {
  const Bytes large(1e9);
  return (large / timing.load(large)).value();
}

/// nullptr: the GPU has no codec of that name.
const GpuCodecProfile* find_codec(const DeviceProfile& device, const std::string& name) {
  if (!device.gpu) return nullptr;
  const auto codec = device.gpu->codecs.find(name);
  return codec == device.gpu->codecs.end() ? nullptr : &codec->second;
}

/// Of large reads, bytes a second, for all GPUs together.
double ssd_rate(const TimingModel& timing) {
  const Bytes large(1e9);
  return (large / timing.ssd_read(large)).value();
}

std::vector<StorageBackend> storage_backends(const Scenario& s, const SystemConfig& system) {
  std::vector<StorageBackend> backends;
  const TimingModel timing(s.device);
  for (const std::string& name : system.paging->backends) {
    StorageBackend& b = backends.emplace_back();
    b.name = name;
    if (name == "resident") {
      b.bytes_per_second = std::numeric_limits<double>::infinity();
      b.gpu_bytes_per_byte = 1;
    } else if (name == "ssd") {
      b.bytes_per_second = ssd_rate(timing) / s.gpus();
      if (s.device.is_discrete()) b.bytes_per_second = std::min(b.bytes_per_second, link_rate(timing));
    } else if (name == "host") {
      b.bytes_per_second = link_rate(timing);
      const Bytes usable = s.device.memory.total.value - s.device.memory.system_reserve.value;
      b.capacity_bytes = std::max((usable / s.gpus() - system.kv.swap_space).value(), 0.0);
    } else {
      const GpuCodecProfile& codec = s.device.gpu->codecs.at(name);
      b.bytes_per_second = codec.rate.value.value();
      b.gpu_bytes_per_byte = codec.ratio.value;
    }
  }
  return backends;
}

/// What is streamed of the layer of which most is; of a whole one where experts move later.
std::uint32_t most_streamed(const StorageSplit& split, bool moves) {
  const StorageShape& shape = split.shape();
  std::uint32_t most = moves ? shape.experts : 0;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    std::uint32_t streamed = shape.experts;
    for (std::size_t k = 0; k < shape.backends.size(); ++k)
      if (std::isinf(shape.backends[k].bytes_per_second)) streamed -= split.experts(layer, k);
    most = std::max(most, streamed);
  }
  return most;
}

/// Around the experts of a layer, where each GPU has `batch` rows of its own.
double exchange_seconds(const Scenario& s, const TimingModel& timing) {
  const auto ranks = static_cast<int>(s.data_parallel);
  const double rows = 1.0 * s.workload.batch * decode_rows(s.speculation);
  return (timing.exchange(ranks, dispatch_bytes(s.model, rows)) +
          timing.exchange(ranks, combine_bytes(s.model, rows)))
      .value();
}

/// One MoE layer with its weights resident, for a step of `batch` requests halfway through their answers,
/// with their drafts; experts drawn evenly. Layers without a feed-forward part lie between MoE layers, and
/// are shared out over them.
double layer_compute_seconds(const Scenario& s, const SystemConfig& system,
                             const std::vector<ServedRequest>& requests) {
  if (!s.model.is_moe()) return 0;  // nothing is streamed beside it
  const TimingModel timing(s.device);
  DenseTimes dense(s.model, timing);
  Pass pass;
  const std::uint32_t each = decode_rows(s.speculation);
  pass.produces = s.workload.batch;
  pass.tokens = pass.produces * each;
  pass.drafts = pass.tokens - pass.produces;
  for (const ServedRequest& q : requests)
    pass.runs.push_back({.first = q.prompt_tokens + q.output_tokens / 2.0, .rows = each});
  const std::uint32_t rows = pass.tokens * s.data_parallel;  // that meet in the experts
  dense.begin(pass, rows);
  const auto layers = static_cast<double>(s.model.moe_layers().size());
  double seconds = 0, computed = 0, reduces = 0;
  for (std::size_t l = 0; l < s.model.layers.size(); ++l) {
    const Layer& layer = s.model.layers[l];
    if (layer.feed_forward.kind == FeedForward::Kind::dense) continue;
    seconds += dense.dense(l).seconds + dense.shared(l).seconds;
    ++computed;
    reduces += all_reduces(layer);
  }
  const FeedForward& ff = s.model.moe();
  const double missed = std::pow(1 - 1.0 * ff.top_k / ff.experts, rows);
  const int held = most_experts_of_rank(ff.experts, static_cast<int>(s.expert_ranks()));
  seconds /= layers;
  seconds += computed / layers * system.host_per_layer.value() + timing.dispatch().value();
  const double touched = held * (1 - missed);
  seconds += touched * system.host_per_expert.value();
  seconds += timing.grouped_experts(s.model, touched, 1.0 * rows * ff.top_k * held / ff.experts).value();
  seconds += exchange_seconds(s, timing);
  const Bytes reduced = all_reduce_bytes(s.model, pass.tokens);
  return seconds + reduces / layers * timing.all_reduce(static_cast<int>(s.tensor_parallel), reduced).value();
}

/// What a step needs besides for the rows of other GPUs, where all meet in the experts: hidden states in and
/// out, and for each expert chosen its projections and its output.
Bytes gathered_activation_bytes(const Scenario& s, const SystemConfig& system) {
  constexpr double kBytesPerActivation = 2;  // BF16
  const FeedForward& ff = s.model.experts_or_none();
  const double row = 2.0 * s.model.hidden + ff.top_k * ((ff.matrices - 1.0) * ff.width + s.model.hidden);
  return Bytes((s.data_parallel - 1.0) * system.batching->max_tokens * row * kBytesPerActivation);
}

/// What lies in the host's memory.
Bytes host_bytes(const StorageSplit& split) {
  const StorageShape& shape = split.shape();
  double experts = 0;
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if (shape.backends[k].name == "host") experts += static_cast<double>(split.total(k));
  return Bytes(experts * shape.expert_bytes);
}

/// Whether what is pinned never changes.
bool pins_for_good(const SystemConfig& system) {
  return find_cache_policy(system.cache.name)->preloads;
}

StorageShape storage_shape(const Scenario& s, const SystemConfig& system) {
  StorageShape shape;
  shape.layers = static_cast<std::uint32_t>(s.model.moe_layers().size());
  shape.experts = static_cast<std::uint32_t>(
      most_experts_of_rank(s.model.experts_or_none().experts, static_cast<int>(s.expert_ranks())));
  if (pins_for_good(system)) shape.experts -= std::min(system.paging->pinned, shape.experts);
  shape.expert_bytes = expert_bytes_or_none(s.model).value();
  shape.backends = storage_backends(s, system);
  return shape;
}

/// As the policy would have it within `budget` bytes, or, where that cannot be, within the least that it can
/// do with.
StorageSplit split_within(const PagingConfig& paging, StorageShape shape, double budget) {
  if (shape.experts == 0) return StorageSplit(shape);  // all are pinned, or there are none
  const StoragePolicyEntry& policy = *find_storage_policy(paging.storage.name);
  StorageSplit best = split_storage(policy, shape, paging.storage.parameters);  // where it fits, or throws
  const auto fits = [&](double bytes) {
    shape.gpu_budget_bytes = bytes;
    try {
      best = split_storage(policy, shape, paging.storage.parameters);
      return true;
    } catch (const PolicyError&) {
      throw;
    } catch (const InputError&) {
      return false;
    }
  };
  double too_little = std::max(budget, 0.0);
  if (fits(too_little)) return best;
  constexpr double kByte = 1;
  while (best.gpu_bytes() - too_little > kByte) {
    const double between = too_little + (best.gpu_bytes() - too_little) / 2;
    if (!fits(between)) too_little = between;
  }
  return best;
}

/// Of a GPU: what the page cache has of host memory, or of the one memory outside the budget.
Bytes page_cache_bytes(const Scenario& s, const SystemConfig& system, Bytes host_experts) {
  if (!system.page_cache) return Bytes(0);
  if (!s.device.is_discrete()) return std::max(s.device.usable_memory() - s.budget, Bytes(0));
  const MemoryProfile& host = s.device.memory;
  const Bytes usable = host.total.value - host.system_reserve.value;
  return std::max(usable / s.gpus() - system.kv.swap_space - host_experts, Bytes(0));
}

}  // namespace

PagedPlan plan_paged(const Scenario& s, const SystemConfig& system,
                     const std::vector<ServedRequest>& requests) {
  check_budget(s.name, s.budget, s.device);
  const PagingConfig& paging = *system.paging;
  StorageShape shape = storage_shape(s, system);
  shape.compute_s = layer_compute_seconds(s, system, requests);

  MemoryPlan m;
  m.budget = s.budget;
  m.non_expert = non_expert_bytes(s.model);
  m.draft = draft_bytes(s.speculation);
  m.activations = step_activation_bytes(s, system.batching->max_tokens);
  m.activations += gathered_activation_bytes(s, system);
  plan_kv_block(s, system, m);
  const Bytes all_streamed(window_layers(paging) * shape.experts * shape.expert_bytes);
  m.pinned = Bytes(1.0 * paging.pinned * shape.layers * shape.expert_bytes);
  const Bytes fixed = m.non_expert + m.draft + m.activations + m.pinned;
  const Bytes left =
      m.budget - fixed - all_streamed - std::max(planned_kv_bytes(s, system, m, requests), m.kv_block);

  PagedPlan plan{split_within(paging, shape, left.value()), {}, {}, m};
  plan.pinned = paging.pinned;
  plan.pinned_for_good = paging.pinned > 0 && pins_for_good(system);
  plan.experts = shape.experts + (plan.pinned_for_good ? plan.pinned : 0);
  for (const std::string& name : paging.backends) {
    plan.on_ssd.push_back(name == "ssd");
    plan.codecs.push_back(find_codec(s.device, name));
  }
  plan.most_streamed = most_streamed(plan.split, paging.residency.name != "fixed");
  plan.memory.staging = Bytes(window_layers(paging) * plan.most_streamed * shape.expert_bytes);
  plan.memory.expert_cache = Bytes(plan.split.gpu_bytes());
  const Bytes taken = fixed + plan.memory.staging + plan.memory.expert_cache;
  plan.memory.host_experts = host_bytes(plan.split);
  plan.memory.page_cache = page_cache_bytes(s, system, plan.memory.host_experts);
  plan.memory.swap_blocks = swap_blocks(s, system, m);
  if (taken + m.kv_block > m.budget) {
    plan.memory.shortfall = taken + m.kv_block - m.budget;
    return plan;
  }
  plan.memory.kv_blocks = whole_blocks(m.budget - taken, m.kv_block);
  plan.memory.kv_cache = static_cast<double>(plan.memory.kv_blocks) * m.kv_block;
  return plan;
}

}  // namespace moelab
