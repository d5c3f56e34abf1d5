// Tensor parallelism: what one of several GPUs holds and computes of a model that they serve together
// (Megatron-LM, arXiv 1909.08053, section 3: column-parallel projections, row-parallel ones, an all-reduce
// behind each pair).
#pragma once

#include <cstdint>

#include "models/architecture.hpp"

namespace moelab {

/// The part of each of `ranks` GPUs, as a model of its own: heads and widths divided, hidden size whole.
/// Everything that counts weights, work and KV cache then counts those of one GPU. Split: query heads,
/// key-value heads, heads of linear attention and Mamba-2 with the latter's groups, widths of dense, shared
/// and routed feed-forward parts (each GPU has a slice of every expert), the vocabulary (rounded up). Whole
/// on every GPU: norms, gates, the latent of multi-head latent attention, and key-value heads and Mamba-2's
/// groups where there are fewer than GPUs (one each, copied). Throws InputError that names what does not
/// divide, or would cut groups of weights with one scale (scale_group). What is not published of a part is
/// left out.
Architecture tensor_parallel_part(const Architecture& model, int ranks);

/// The same where routed experts are shared otherwise: each GPU has 1 / `expert_slices` of the columns of
/// each expert that it has, however many these are.
Architecture parallel_part(const Architecture& model, int ranks, int expert_slices);

/// The feed-forward part of all `ranks` GPUs together, of one GPU's part.
FeedForward whole_experts(const FeedForward& part, int ranks);

/// Bytes that each GPU brings to one all-reduce for so many tokens: the hidden states in BF16.
Bytes all_reduce_bytes(const Architecture& model, double tokens);

/// All-reduces of a layer, one behind each part that it has: attention, cross-attention, feed-forward part.
int all_reduces(const Layer& layer);

}  // namespace moelab
