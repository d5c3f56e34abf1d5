// What the requests of a cluster wait for: the causes of their latencies, those before they are begun
// included.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/run_result.hpp"

namespace moelab {

/// Seconds of the latencies of all answered requests together, from when each came to its last token.
struct LatencySums {
  double away_s = 0;    // not yet begun, its server being away
  double queued_s = 0;  // not yet begun for any other reason: others are served
  double served_s = 0;  // from its first pass to its last token
};
/// Of a run on a cluster.
LatencySums latency_sums(const RunResult& result);

/// The seconds of latency_sums() by cause: kAwayCause, kQueueCause, and of the time served each cause in its
/// part of Metrics::stall_s, as the servers' time was; exact where a server serves one request at a time.
/// Causes that took time, the two first, then in the order of kCauseNames. Empty where none was answered, or
/// the run was not on a cluster.
std::vector<std::pair<std::string, double>> latency_causes(const RunResult& result);

}  // namespace moelab
