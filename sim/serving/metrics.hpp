// What a run leaves: counts and times, filled by the serving loop.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policies/compression_state.hpp"
#include "sim/serving/layer_graph.hpp"

namespace moelab {

/// What the wall time went to. Every instant of a run belongs to one cause: the operation on the critical
/// path, from the moment its dependencies were met (so waiting for its resource counts to that resource).
enum class Cause : std::uint8_t {
  ssd_read,
  page_cache_read,
  decompress,
  recover,
  expert_compute,
  dense_compute,
  host,
  prefetch
};
inline constexpr std::size_t kCauses = 8;
inline constexpr std::array<std::string_view, kCauses> kCauseNames = {
    "ssd_read",       "page_cache_read", "decompress", "recover",
    "expert_compute", "dense_compute",   "host",       "prefetch"};
Cause cause_of(const OpLabel& label);

/// fetched = used + late + unused.
struct PrefetchCounts {
  std::uint64_t fetched = 0;    // experts of which the fetch began
  std::uint64_t used = 0;       // fetched in time; counted at their first use
  std::uint64_t late = 0;       // used, but still on the way when wanted
  std::uint64_t unused = 0;     // dropped before any use, or not used by the end of the run
  std::uint64_t cancelled = 0;  // taken out before they began; not among `fetched`
  double wasted_bytes = 0;      // read for the unused ones
};

struct Metrics {
  std::vector<double> ttft_s;        // a request each: from the arrival of its batch to its first token
  std::vector<double> end_to_end_s;  // a request each: to its last token
  std::vector<double> token_gaps_s;  // a generated token each, after the first of its request
  std::uint64_t tokens = 0;          // generated
  double wall_s = 0;
  /// Experts used, by the state they were found in, all passes. Prefetched ones that are there in time are
  /// found in F; those still on the way count as what the cache has of them.
  std::array<std::uint64_t, kStates> hits{};
  std::array<std::uint64_t, kStates> decode_hits{};  // the same, decode passes only
  std::array<double, kTiers> bytes{};                // read, by tier
  std::array<double, kCauses> stall_s{};             // adds up to wall_s
  PrefetchCounts prefetch;
};

/// An operation that waits for a fetch that was already on its way.
struct FetchWait {
  engine::OpIndex op;
  const engine::Graph* fetch;
};

/// A finished graph's critical path, by cause: adds up to the time from its submission to its end. What an
/// operation in `waits` waited for its fetch is a cause of its own.
std::array<double, kCauses> critical_path(const LabelledGraph& graph, std::span<const FetchWait> waits);

}  // namespace moelab
