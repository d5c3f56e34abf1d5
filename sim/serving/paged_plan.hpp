// How the memory of each GPU is spent where experts and KV cache are paged, and where the experts lie.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/storage/storage.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/kv_plan.hpp"

namespace moelab {

struct PagedPlan {
  StorageSplit split;  // where experts lie at the start, but for those pinned for good
  std::vector<const GpuCodecProfile*> codecs;  // by backend, the scenario's; nullptr: it decodes nothing
  std::vector<bool> on_ssd;                    // by backend
  MemoryPlan memory;
  std::uint32_t experts = 0;        // of a layer, on a GPU
  std::uint32_t pinned = 0;         // of these, that stay beside the window
  bool pinned_for_good = false;     // which never change: nothing else has a copy of them
  std::uint32_t most_streamed = 0;  // of a layer, at once: half of the window's room, or all of it (`used`)
};

/// As serving engines do it (vLLM's profile run): budget - non-expert weights - what drafts - stored experts
/// - pinned ones
/// - window - activations = KV cache, in whole blocks, of which a request with linear attention takes some
/// for its states.
///   window:       two layers of what is streamed of the layer of which most is; whole layers where a
///                 residency policy moves experts; one layer where nothing comes ahead of its gate
///   pinned:       as many experts of each layer. Those that never change are not stored besides; of others
///                 each is, since it may leave
///   activations:  activation_bytes() of max_tokens rows, and the logits of `batch`; with data parallelism
///   what
///                 the rows of all other GPUs take in the experts besides
/// With expert parallelism of the GPU that has most experts; each has a KV cache of that size.
/// The storage policy may give experts all but what the longest request needs at its end; with
/// KvConfig::first all but what the `batch` longest ones need.
/// What does not fit is no error: MemoryPlan::shortfall says how much is missing for one block. Throws
/// InputError for what no memory would mend, and for a budget beyond the device's memory.
PagedPlan plan_paged(const Scenario& scenario, const SystemConfig& system,
                     const std::vector<ServedRequest>& requests);

}  // namespace moelab
