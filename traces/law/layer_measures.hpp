// What a fit measures in one layer of a recording.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/routing_trace.hpp"

namespace moelab {

/// Distances between tokens of a request at which the overlap of their experts is measured.
inline constexpr std::array<std::uint32_t, 14> kLags{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};

struct LayerMeasures {
  std::uint64_t tokens = 0;
  std::vector<double> shares;                  // by expert: share of the tokens that use it; adds up to top_k
  std::array<double, kLags.size()> overlap{};  // mean share of the experts that the token `lag` on uses too
  std::array<std::uint64_t, kLags.size()> pairs{};  // of tokens that it is the mean of
  double domain_overlap = 0;                        // of tokens of different requests of one domain
  bool has_domains = false;                         // false: there are no such requests
};
LayerMeasures measure_layer(const RoutingTrace& trace, std::uint32_t layer);

struct GateMeasures {
  std::vector<double> log_ratios;  // mean logarithm of the gates' ratio between ranks r and r + 1
  double sum = 1;                  // mean sum of the chosen ones' gates
};
/// Gates by rank: the chosen ones', and with router scores of all experts the others' as these say.
/// Throws InputError where a gate is negative.
GateMeasures measure_gates(const RoutingTrace& trace, std::uint32_t layer);

}  // namespace moelab
