// The stages of Prism's placement (prism.cpp), for those who want to look between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/placement/server_sets.hpp"

namespace moelab {

/// v_{n,l}: Shannon entropy of the counts, bits; 0 where all counts are 0.
double activation_entropy(std::span<const double> counts);

/// N_{n,l} of Algorithm 1: experts of each layer on each server. [servers, layers]
using LayerQuotas = std::vector<std::vector<std::uint32_t>>;

/// Step 1: in proportion to entropy.
LayerQuotas entropy_layer_counts(const PlacementShape& shape, const ActivationCounts& counts);
/// Between them, which the paper does not do: moves counts between a server's layers until its most used
/// experts so counted have at least `share`, 0 to 1, of the mass of its most used as many of all layers.
void raise_local_mass(const ActivationCounts& counts, double share, LayerQuotas& layer_counts);
/// Step 2: moves counts between a server's layers, and takes room that step 1 left, until every layer has
/// copies * experts of them over all servers. No server's sum falls.
void rebalance_layer_counts(const PlacementShape& shape, LayerQuotas& layer_counts);

/// Algorithm 2, first loop: the most used N_{n,l} experts of each layer on each server.
ServerSets most_used_experts(const PlacementShape& shape, const ActivationCounts& counts,
                             const LayerQuotas& layer_counts);
/// Algorithm 2, second loop: puts experts that miss copies in the place of duplicates. Each layer must have
/// copies * experts over all servers.
void repair_coverage(const PlacementShape& shape, const ActivationCounts& counts, ServerSets& sets);

}  // namespace moelab
