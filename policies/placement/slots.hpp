// Memory counted in experts: a slot is room for one. What placement policies share.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/placement/placement.hpp"

namespace moelab {

/// Experts that fit each GPU, at most all of the model; none on servers that are down. [gpus]
std::vector<std::uint64_t> gpu_slots(const PlacementShape& shape);
/// Different experts that fit each server's GPUs together. [servers]
std::vector<std::uint64_t> server_slots(const PlacementShape& shape);

/// How many of `total` each GPU gets when they are shared out as evenly as slots allow: all the same, but
/// those with fewer slots theirs; of the others, those with more slots get one more where it does not divide.
/// No more than the slots together.
std::vector<std::uint64_t> even_shares(const std::vector<std::uint64_t>& slots, std::uint64_t total);
/// Shares out each GPU's slots over the layers: each layer the same, and what remains to the layers that have
/// fewest so far. All layers have as many in the end, give or take one. [gpus, layers]
std::vector<std::uint32_t> slots_by_layer(const std::vector<std::uint64_t>& slots, std::uint32_t layers);

/// Load of the experts of a layer: their counts on all servers. [experts]
std::vector<double> layer_load(const ActivationCounts& counts, std::uint32_t layer);
/// Indices of the values, greatest first, those of equal values ascending.
std::vector<std::uint32_t> by_descending(std::span<const double> values);

}  // namespace moelab
