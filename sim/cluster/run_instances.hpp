// Runs of systems with several instances (SystemConfig::instances).
#pragma once

#include <span>
#include <vector>

#include "sim/run.hpp"

namespace moelab {

struct PagedPlan;
struct ServedRequest;

/// Fills metrics, instances and use of resources of a result whose memory was planned: `plan` is that of each
/// instance and has no shortfall. `profile`: as WindowedStage has it. Times of the critical path are
/// those of the busiest instance (InstancesResult::busiest()), in decode passes of the busiest that decodes;
/// counts are sums over instances, and there are no samples. Throws InputError on hardware.
void run_instances(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                   const PagedPlan& plan, const std::vector<ServedRequest>& requests,
                   std::span<const double> profile, const RunOptions& options, RunResult& result);

}  // namespace moelab
