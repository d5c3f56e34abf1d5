// The KV cache of requests that come and go: its blocks, and the batching policy over them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/batching/batching.hpp"
#include "sim/serving/memory_plan.hpp"
#include "sim/serving/served_request.hpp"

namespace moelab {

struct Scenario;
struct SystemConfig;

/// Blocks that `space` has room for, to rounding; at most 2^40.
std::uint64_t whole_blocks(Bytes space, Bytes block);

/// Sets what a block takes, and how many a request takes for its states and for windows of sliding attention;
/// adds to the activations what a step's prompts take in layers with such a window until it has run. Layers
/// with a window of more than kLongestWindow tokens are as those without. Throws InputError for a model that
/// has no KV cache.
void plan_kv_block(const Scenario& scenario, const SystemConfig& system, MemoryPlan& memory);

/// Tokens: a request holds a whole window from its beginning, which of a short one is little. Of a longer one
/// (Llama 4's 8192) most requests would hold more than they have, and its layers are counted whole instead,
/// as for a request that is no longer than the window.
inline constexpr int kLongestWindow = 1024;

/// The KV cache that is planned; of the scenario's model, whether what is kept beside blocks allows sharing.
KvShape kv_shape(const Scenario& scenario, const SystemConfig& system, const MemoryPlan& memory);

/// Blocks of swap space. None where CPU and GPU have one memory: what gives way is computed again there.
std::uint64_t swap_blocks(const Scenario& scenario, const SystemConfig& system, const MemoryPlan& memory);

/// The system's batching policy over the KV cache that is planned, with data parallelism one on each rank;
/// without a policy, static batches that no memory limits.
std::unique_ptr<BatchingPolicy> make_batching(const Scenario& scenario, const SystemConfig& system,
                                              const MemoryPlan& memory);

/// Throws InputError for the first request that could never be served, with the reason.
void check_requests(const Scenario& scenario, const SystemConfig& system, const MemoryPlan& memory,
                    const std::vector<ServedRequest>& requests);

}  // namespace moelab
