// Runs of systems that page experts and KV cache (SystemConfig::paging).
#pragma once

#include "sim/run.hpp"

namespace moelab {

/// Throws InputError for policies that cannot be made, and for requests that could never be served in the KV
/// cache there is. What does not fit at all is a result (MemoryPlan::shortfall).
void check_paged_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace);

/// Fills what of a result is of the run: metrics, memory, use of resources.
void run_paged_system(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                      const RunOptions& options, RunResult& result);

}  // namespace moelab
