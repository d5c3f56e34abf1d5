// Runs of systems on the servers of a cluster.
#pragma once

#include <string>

#include "sim/run.hpp"

namespace moelab {

/// Throws InputError for policies that cannot be made. Returns a sentence about the memory that the system's
/// servers lack, "" where they have it: its run says the same (RunResult::memory, ClusterResult::lacking).
std::string check_cluster_system(const Scenario& scenario, const SystemConfig& system,
                                 const RoutingTrace& trace);

/// Fills what of a result is of the run: metrics, servers, use of resources.
void run_cluster_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                        const RunOptions& options, RunResult& result);

/// Adds what one server's users met to what all have.
void add_metrics(const Metrics& one, std::uint32_t server, Metrics& all);

}  // namespace moelab
