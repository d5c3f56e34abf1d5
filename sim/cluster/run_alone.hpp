// Runs of systems whose servers do not call each other: each offloads its experts as a single machine does,
// and requests may be redirected (the rivals of Prism's Table I).
#pragma once

#include <optional>

#include "sim/run.hpp"
#include "sim/serving/pool_planning.hpp"

namespace moelab {

/// A server as a machine of its own: a scenario with its device and its budget. Several GPUs of a server are
/// one with the memory of all: a single machine serves on one, and uses the others' memory.
Scenario alone_scenario(const Scenario& scenario, std::size_t server);

/// Throws InputError for a cache that asks for more of the routing than a cluster's tasks say.
void check_cache_on_cluster(const Scenario& scenario, const SystemConfig& system);
/// What sizes of pools are planned by: requests that the users brought before, from the rows that the first
/// placement of other systems is made from too. A batch is of one server's users. Nothing where the system's
/// cache has no pools.
std::optional<RankInclusion> past_use(const Scenario& scenario, const SystemConfig& system,
                                      const RoutingTrace& rows);

/// Throws InputError where a server alone could not run the system, ClusterLacksMemory where it is for want
/// of memory alone.
void check_alone_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& rows);

/// Throws ClusterLacksMemory.
void run_alone_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& rows,
                      const RunOptions& options, RunResult& result);

}  // namespace moelab
