// What the causes of a run's time (sim/serving/metrics.hpp) are called in sentences and tables.
#pragma once

#include <string>

namespace moelab {

/// "decompression" for "decompress"; "waiting for requests" for "idle", which is no cause of its own. One
/// that is not known is its own word.
std::string words_of_cause(const std::string& cause);

/// Of causes the one that is no work: nothing was there to be served.
inline constexpr const char* kWaitingCause = "idle";
/// Of a cluster's requests, what they wait for before they are begun (sim/results/latency_causes.hpp).
inline constexpr const char *kAwayCause = "server_away", *kQueueCause = "queue";
/// Of a time that is told by its causes: no work of any server.
inline bool is_waiting(const std::string& cause) {
  return cause == kWaitingCause || cause == kAwayCause || cause == kQueueCause;
}

/// "decompression (CPU), 60.0 % of the time". `place`: where that is; "": not said. `share`: 0 to 1.
std::string bound_words(const std::string& cause, const std::string& place, double share);

}  // namespace moelab
