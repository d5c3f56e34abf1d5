// How often experts would be found in a cache of N experts a layer, for every N: LRU and Belady exactly for
// all capacities in one pass (they are stack algorithms: what a small cache holds, a larger one holds too),
// FIFO and LFU, which are not, side by side for the capacities asked for.
//
// One rule for all: each layer has a cache of its own, empty at first. A token's experts are looked up one by
// one in ascending id order; one that is missing always enters, in the place of another if the cache is full
// (which may be an expert of the same token). A layer that does not run for a token looks nothing up. Who
// leaves:
//   lru     the one looked up longest ago
//   fifo    the one that entered first
//   lfu     the one looked up least often so far; among equals the one looked up longest ago
//   forgetting lfu (lfu:forget=1 of the cache policies)
//           the same, counted since it last entered: entering counts 1, leaving forgets. As LFU in
//           libCacheSim
//   belady  the one looked up again farthest in the future; first those never looked up again, smallest id
//           first (which one of them does not change what is found). No replacement that must let a missing
//           expert in finds more
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "traces/routing_trace.hpp"

namespace moelab {

/// What to count. Capacities are from 1 to the layer's experts, in any order.
struct CacheCurveChoice {
  bool lru = false;
  bool belady = false;
  std::vector<std::uint32_t> fifo;
  std::vector<std::uint32_t> lfu;
  std::vector<std::uint32_t> forgetting_lfu = {};
};

/// One layer's lookups and how many of them found their expert.
struct LayerCacheHits {
  std::uint64_t lookups = 0;
  std::vector<std::uint64_t> lru;     // [capacity - 1], every capacity up to the experts; empty: not chosen
  std::vector<std::uint64_t> belady;  // the same
  std::vector<std::uint64_t> fifo;    // one for each of the choice's capacities
  std::vector<std::uint64_t> lfu;
  std::vector<std::uint64_t> forgetting_lfu;
};

/// Counts while a trace goes by. Memory does not grow with the trace (a few hundred bytes an expert and
/// layer), also for Belady: no future is kept. Time a lookup grows with the number of experts.
class CacheCurves {
 public:
  /// Throws InputError for more than 2^24 experts in all layers together.
  CacheCurves(std::uint32_t layers, std::uint32_t experts, const CacheCurveChoice& choice);
  ~CacheCurves();
  /// One token at a layer: its experts, distinct and below `experts`, in any order; or kNoExpert in all
  /// places. Layers may come in any order (fastest when they take turns), a layer's tokens in theirs.
  void add_token(std::uint32_t layer, std::span<const std::uint16_t> ids);
  /// The counts, by layer. To be called once, last.
  std::vector<LayerCacheHits> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same of a whole trace, by layer, on up to `threads` threads (layers are shared among them; the counts
/// are the same for any number). Gives the rows' pages back behind it.
std::vector<LayerCacheHits> cache_curves(const RoutingTrace& trace, const CacheCurveChoice& choice,
                                         unsigned threads);

}  // namespace moelab
