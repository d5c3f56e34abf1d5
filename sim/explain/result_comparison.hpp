// Two results side by side: what was asked differently, and where the time between them is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/result_file.hpp"

namespace moelab {

/// A value of two scenario documents that is not the same. Values are JSON; "": there is none.
struct KeyDifference {
  std::string path;  // "device.ssd.read.latency"; of the system that ran: "system.cache.policy"
  std::string a, b;
};

/// Where they differ, in the order of `a` and then of `b`. Both are documents of scenarios with one system.
std::vector<KeyDifference> document_differences(const std::string& a, const std::string& b);

/// A cause of time, of which one run has more than the other.
struct CauseDifference {
  std::string cause;        // as in stall_s, or "idle"
  double a_s = 0, b_s = 0;  // for each generated token
};

struct Comparison {
  std::vector<KeyDifference> keys;
  std::vector<std::string> data;  // files of data of `b` that `a` did not read, by their bytes
  /// Seconds for each generated token, prompts included: what the causes add up to (seconds_a_token()).
  double a_s = 0, b_s = 0;
  std::vector<CauseDifference> causes;  // of which any run has some; the largest difference first
};

/// Seconds of a run by cause for each generated token: all that it served, and "idle" for what it waited for
/// requests; of a cluster, the latencies of all its requests, added up (of a file of an older version without
/// them, the time that its servers served). Causes that took time, in the order of kCauseNames.
std::vector<std::pair<std::string, double>> seconds_a_token(const ResultFile& result);

/// Both have generated tokens.
Comparison compare(const ResultFile& a, const ResultFile& b);

}  // namespace moelab
