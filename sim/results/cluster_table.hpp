// A cluster's results for people: servers side by side, decisions and faults in order of time.
#pragma once

#include <string>
#include <vector>

#include "sim/results/text_table.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// Mean latency of each server and of all requests, a system a row; the table of Prism's paper.
TextTable cluster_latency_table(const std::vector<RunResult>& results);
/// Where experts were computed, what that moved, and how busy the GPUs were, a system a row.
TextTable cluster_calls_table(const std::vector<RunResult>& results);
/// The share of activations computed at home, over the time of the run: a line of bars a system.
std::string local_share_picture(const std::vector<RunResult>& results);
/// Migrations and faults; "" where there were none.
std::string cluster_events(const std::vector<RunResult>& results);

}  // namespace moelab
