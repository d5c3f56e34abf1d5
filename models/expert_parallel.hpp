// Expert parallelism: GPUs of a node of which each has whole experts, some of every layer, as vLLM divides
// them (--enable-expert-parallel). How rows get to their experts depends on who computes attention:
//
//   tensor-parallel: every GPU has all rows. It computes those of its experts, and the all-reduce that tensor
//                    parallelism has behind the feed-forward part anyway sums up what they made of each row.
//   data-parallel:   each GPU has rows of its own. All of them are brought to all GPUs before the experts
//                    (dispatch: all-gather), and the sums of each row back behind them (combine:
//                    reduce-scatter): vLLM's default backend, allgather_reducescatter (AgRsAll2AllManager in
//                    vllm/distributed/device_communicators/all2all.py).
#pragma once

#include "models/architecture.hpp"

namespace moelab {

/// Experts of a layer, by number: [first, first + count).
struct ExpertRange {
  int first = 0, count = 0;
  bool operator==(const ExpertRange&) const = default;
};

/// The experts of GPU `rank` of `ranks`: neighbours, evenly divided; where that leaves a remainder, the first
/// GPUs have one more (determine_expert_map of vLLM, placement "linear"). Preconditions: 0 <= rank < ranks.
ExpertRange experts_of_rank(int experts, int ranks, int rank);

/// Experts of the GPU that has most.
inline int most_experts_of_rank(int experts, int ranks) {
  return experts_of_rank(experts, ranks, 0).count;
}

/// What a GPU that has `rows` of its own brings to the dispatch of a layer: hidden states in BF16 and, of
/// each of the experts chosen, its number and its weight, 4 bytes each.
Bytes dispatch_bytes(const Architecture& model, double rows);
/// What it gets back from the combination: hidden states in BF16.
Bytes combine_bytes(const Architecture& model, double rows);

}  // namespace moelab
