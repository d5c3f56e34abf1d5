// What a routing trace is like, layer by layer: `moelab trace stats`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "traces/routing_trace.hpp"
#include "traces/statistics/use_statistics.hpp"

namespace moelab {

/// One layer, over the tokens for which it runs. What the trace cannot tell is NaN or empty.
struct LayerStatistics {
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> uses;  // tokens sent to each expert
  double top_quarter = 0;           // share of the uses of the busiest quarter of the experts
  double entropy = 0;               // of the uses, bits
  double reuse = 0;                 // share of a token's experts that the token before used
  double independent_reuse = 0;     // the same if tokens were independent
  std::vector<double> distinct;     // mean distinct experts in windows of UseStatistics::kWindows tokens
  double transition_recall = 0;     // TransitionStatistics; NaN in the first layer of a stack
  double popularity_recall = 0;
  std::vector<double> gates;     // mean weight of the r-th largest, r < top_k; empty without gate scores
  double prompt_divergence = 0;  // GroupDivergence of the requests, bits
  double prompt_chance = 0;      // what chance alone would make it
  double domain_divergence = 0;  // of the domains; NaN without
  double domain_chance = 0;
  std::vector<double> lru, belady;  // hit rates of a cache of 1 .. experts experts
  std::vector<double> lfu, fifo;    // hit rates at RoutingStatistics::capacities
};

struct RoutingStatistics {
  TraceDescription description;
  std::uint64_t tokens = 0;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;        // encoder and prefill rows
  std::vector<std::uint32_t> capacities;  // of lfu and fifo: 12.5, 25, 50 and 75 % of the experts
  std::vector<LayerStatistics> layers;
};

struct StatisticsOptions {
  bool curves = true;                                          // hit curves of caches: most of the time
  unsigned threads = 0;                                        // at most; 0: as many as cores
  std::function<void(std::uint64_t, std::uint64_t)> progress;  // tokens done, all; from one thread
};

/// Reads the trace from front to back, twice in each thread: they share the layers. The result does not
/// depend on the threads. Throws InputError where layers, experts and domains are so many that it would take
/// more than 4 GiB of memory.
RoutingStatistics routing_statistics(const RoutingTrace& trace, const StatisticsOptions& options = {});

}  // namespace moelab
