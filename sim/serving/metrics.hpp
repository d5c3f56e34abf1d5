// What a run leaves: counts and times, filled by the serving loop.
#pragma once

#include <array>
#include <cstdint>
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

struct PrefetchCounts {
  std::uint64_t fetched = 0;    // experts
  std::uint64_t used = 0;       // in time
  std::uint64_t late = 0;       // used, but still on the way when wanted
  std::uint64_t cancelled = 0;  // taken out before they began
  double wasted_bytes = 0;      // read and dropped unused
};

struct Metrics {
  std::vector<double> ttft_s;        // a request each: from the arrival of its batch to its first token
  std::vector<double> end_to_end_s;  // a request each: to its last token
  std::vector<double> token_gaps_s;  // a generated token each, after the first of its request
  std::uint64_t tokens = 0;          // generated
  double wall_s = 0;
  std::array<std::uint64_t, kStates> hits{};  // experts used, by the state they were found in, all passes
  std::array<std::uint64_t, kStates> decode_hits{};  // the same, decode passes only
  std::array<double, kTiers> bytes{};                // read, by tier
  std::array<double, kCauses> stall_s{};             // adds up to wall_s
  PrefetchCounts prefetch;
};

/// Adds a finished graph's critical path to `stall_s`: from its submission to its end, without gaps.
/// Executions in `awaits_prefetch` waited for experts that were already being fetched.
void add_critical_path(const LabelledGraph& graph, const std::vector<engine::OpIndex>& awaits_prefetch,
                       std::array<double, kCauses>& stall_s);

}  // namespace moelab
