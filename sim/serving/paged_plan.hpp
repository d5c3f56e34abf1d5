// How the memory of each GPU is spent where experts and KV cache are paged, and where the experts lie.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/storage/storage.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {

struct PagedPlan {
  StorageSplit split;                          // where experts lie at the start
  std::vector<const GpuCodecProfile*> codecs;  // by backend, the scenario's; nullptr: it decodes nothing
  std::vector<bool> on_ssd;                    // by backend
  MemoryPlan memory;
};

/// The KV cache that is planned.
KvShape kv_shape(const PagingConfig& paging, const MemoryPlan& memory);

/// The scenario's batching policy over the KV cache that is planned.
std::unique_ptr<BatchingPolicy> make_batching(const Scenario& scenario, const PagingConfig& paging,
                                              const MemoryPlan& memory);

/// Blocks that `space` has room for, to rounding; at most 2^40.
std::uint64_t whole_blocks(Bytes space, Bytes block);

/// As serving engines do it (vLLM's profile run): budget - non-expert weights - stored experts - window -
/// activations = KV cache, in whole blocks, of which a request with linear attention takes some for its
/// states.
///   window:       two layers of what is streamed of the layer of which most is; whole layers where a
///                 residency policy moves experts
///   activations:  activation_bytes() of max_tokens rows, and the logits of `batch`
/// The storage policy may give experts all but what the longest request needs at its end; with
/// PagingConfig::kv_first all but what the `batch` longest ones need.
/// What does not fit is no error: MemoryPlan::shortfall says how much is missing for one block. Throws
/// InputError for what no memory would mend, and for a budget beyond the device's memory.
PagedPlan plan_paged(const Scenario& scenario, const SystemConfig& system,
                     const std::vector<ServedRequest>& requests);

}  // namespace moelab
