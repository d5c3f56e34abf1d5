// Data parallelism: ranks of which each forms steps of requests of its own, over a KV cache of its own. A
// step of all of them is the steps that they form at the same time.
#pragma once

#include <memory>
#include <vector>

#include "policies/batching/batching.hpp"

namespace moelab {

/// `ranks`: two at least, all alike. Counts of blocks and requests are those of all ranks together; shares
/// say whose they are, and BatchStep::of_ranks what each rank swaps.
///
/// Whose a request is, is decided when it comes: of the rank for which 4 * (requests that wait) + (requests
/// that run) is least, the first of several (vLLM's DPLBAsyncMPClient, which hears of the counts every 100
/// ms; here at once). What is swapped counts as waiting.
std::unique_ptr<BatchingPolicy> make_rank_batching(std::vector<std::unique_ptr<BatchingPolicy>> ranks);

}  // namespace moelab
