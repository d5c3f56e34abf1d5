#include "sim/serving/paged_residency.hpp"

#include <algorithm>
#include <cmath>

#include "policies/guard/guarded_policies.hpp"
#include "sim/serving/expert_load.hpp"

namespace moelab {
namespace {

/// GPU memory of the experts that have no place off the GPU, at most.
double least_gpu_bytes(const StorageShape& shape) {
  double staying = 1.0 * shape.layers * shape.experts;
  double stored = 0;  // GPU bytes a byte
  for (std::size_t k = 0; k < shape.backends.size(); ++k) {
    stored = std::max(stored, shape.backends[k].gpu_bytes_per_byte);
    if (shape.backends[k].gpu_bytes_per_byte == 0) staying -= static_cast<double>(expert_capacity(shape, k));
  }
  return std::max(staying, 0.0) * shape.expert_bytes * stored;
}

/// KV cache once all experts that can have left the GPU.
std::uint64_t most_kv_blocks(const PagedPlan& plan, const SystemConfig& system) {
  const MemoryPlan& m = plan.memory;
  if (!system.kv.grows) return m.kv_blocks;
  const Bytes freed = m.expert_cache - Bytes(least_gpu_bytes(plan.split.shape()));
  return m.kv_blocks + whole_blocks(freed, m.kv_block);
}

}  // namespace

PagedResidency::PagedResidency(engine::Engine& engine, const PagedResources& resources,
                               const TimingModel& timing, const PagedPlan& plan, const SystemConfig& system,
                               int ranks, std::uint64_t largest_request, GraphObserver* observer)
    : engine_(engine),
      resources_(resources),
      timing_(timing),
      plan_(plan),
      policy_(make_residency_policy(*find_residency_policy(system.paging->residency.name),
                                    system.paging->residency.parameters)),
      split_(plan.split),
      split_before_(plan.split),
      ranks_(ranks),
      largest_request_(largest_request),
      observer_(observer),
      kv_blocks_(plan.memory.kv_blocks),
      most_kv_blocks_(most_kv_blocks(plan, system)) {}

/// What requests hold that run or are to come back, a block more for each, and room for one that waits. Never
/// less than one request needs, so that there is always one that can run.
double PagedResidency::wanted_kv_bytes(const KvUse& use) const {
  std::uint64_t blocks = use.gpu_blocks + use.host_blocks + use.running + use.swapped;
  if (use.waiting > 0) blocks += largest_request_;
  blocks = std::min(std::max({blocks, use.gpu_floor, largest_request_}), most_kv_blocks_);
  return static_cast<double>(blocks) * plan_.memory.kv_block.value();
}

void PagedResidency::adjust(std::uint64_t step, double compute_s, BatchingPolicy& batching,
                            ServingCounts& counts) {
  if (promoting_ && !promotions_.graph.finished()) return;
  if (promoting_ && observer_ != nullptr) observer_->finished(promotions_, step, -1);
  promoting_ = false;
  const KvUse use = batching.use();
  if (compute_s == 0 || use.running + use.waiting + use.swapped == 0) return;
  const MemoryPlan& m = plan_.memory;
  split_before_ = split_;
  if (!policy_->adjust({.iteration = step,
                        .compute_s = compute_s,
                        .gpu_bytes = (m.kv_cache + m.expert_cache).value(),
                        .kv_bytes = wanted_kv_bytes(use)},
                       split_))
    return;
  ++changes_;
  submit_promotions(counts);
  const Bytes for_kv = m.kv_cache + m.expert_cache - Bytes(split_.gpu_bytes());
  kv_blocks_ = std::min(whole_blocks(for_kv, m.kv_block), most_kv_blocks_);
  batching.resize(kv_blocks_);
}

// Experts that are to lie in the GPU's memory come over the link as they are stored, those that lay on the
// SSD from there. Those that leave the GPU's memory have a copy outside it already.
void PagedResidency::submit_promotions(ServingCounts& counts) {
  const StorageShape& shape = split_.shape();
  double bytes = 0, ssd_bytes = 0;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    double gained = 0, of_layer = 0, left_ssd = 0;
    for (std::size_t k = 0; k < shape.backends.size(); ++k) {
      const auto more = static_cast<double>(split_.gained(split_before_, layer, k));
      if (more > 0) counts.moved_experts += static_cast<std::uint64_t>(more);
      if (more < 0 && plan_.on_ssd[k]) left_ssd -= more;
      if (more <= 0 || shape.backends[k].gpu_bytes_per_byte == 0) continue;
      gained += more;
      of_layer += more * shape.expert_bytes * shape.backends[k].gpu_bytes_per_byte;
    }
    bytes += of_layer;
    if (gained > 0) ssd_bytes += of_layer * std::min(left_ssd / gained, 1.0);
  }
  counts.promoted_bytes += bytes;
  counts.ssd_bytes += ssd_bytes;
  if (bytes == 0) return;
  promotions_.clear();
  add_promotion(Bytes(bytes - ssd_bytes), false);
  add_promotion(Bytes(ssd_bytes), true);
  engine_.submit(promotions_.graph, engine::kPrefetch);
  promoting_ = true;
}

void PagedResidency::add_promotion(Bytes bytes, bool from_ssd) {
  if (bytes == Bytes(0)) return;
  const ExpertLoad load{.bytes = bytes, .from_ssd = from_ssd, .kind = OpKind::promote};
  for (std::size_t gpu = 0; gpu < resources_.gpus.size(); ++gpu)
    add_expert_load(promotions_, load, resources_, gpu, timing_, ranks_, engine::kNoOp);
}

}  // namespace moelab
