// What counts of uses are like, layer by layer: `moelab trace stats` of a counts-only trace.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "traces/counts_trace.hpp"

namespace moelab {

/// One layer. What the counts cannot tell is NaN: of a layer that was never used, everything.
struct CountsLayerStatistics {
  std::vector<std::uint64_t> uses;  // of each expert, by all prompts
  double top_quarter = 0;           // share of the uses of the busiest quarter of the experts
  double entropy = 0;               // of the uses, bits
  double prompt_divergence = 0;     // GroupDivergence of the prompts, bits
  double prompt_chance = 0;         // what chance alone would make it, if the counts are of single uses
  double domain_divergence = 0;     // of the domains; NaN without
  double domain_chance = 0;
};

struct CountsStatistics {
  CountsDescription description;
  std::uint64_t uses = 0;  // sum of all counts
  std::vector<CountsLayerStatistics> layers;
};

/// `progress`: layers done, all.
CountsStatistics counts_statistics(const CountsTrace& trace,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

}  // namespace moelab
