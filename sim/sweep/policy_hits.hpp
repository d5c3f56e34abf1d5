// What caches of any policy find in a trace, one cache a layer, by the rule of
// traces/statistics/cache_curves: empty at first, and a token's experts are looked up one by one in ascending
// order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/cache/cache.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// Lookups of a layer, and how many found their expert.
struct LayerHits {
  std::uint64_t lookups = 0, hits = 0;
};

/// Why a policy cannot be counted so (it knows the future, keeps parts of experts, begins full, ...); empty
/// where it can.
std::string cannot_count(const CachePolicyEntry& entry, const RoutingTrace& trace);
/// By layer, with caches of `capacity` experts, 1 to the trace's. Each lookup is a step of its own. For
/// policies that can be counted; throws InputError for parameters out of their range.
std::vector<LayerHits> policy_hits(const RoutingTrace& trace, const CachePolicyEntry& entry,
                                   const PolicyParameters& parameters, std::uint32_t capacity);

}  // namespace moelab
