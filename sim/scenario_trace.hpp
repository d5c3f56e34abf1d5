// The routing that a scenario runs on, and other routing of the same statistics for policies that have to
// know the model before it serves.
#pragma once

#include <string>
#include <vector>

#include "sim/serving/pool_planning.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

struct Scenario;

/// The trace a scenario runs on: its file, checked against the model, or drawn from the scenario's seed, with
/// the scores of all experts where a system needs them. Throws InputError.
RoutingTrace scenario_trace(const Scenario& scenario);

/// What stands behind the scenario's routing, for the head of a result: "law of this model (measured, ±2
/// points)", "by rule (±6 points)", "law of MODEL", "recorded trace FILE", "generator (skew 1.4, ..)".
std::string routing_title(const Scenario& scenario, const RoutingTrace& trace);

/// Statistics for planning policies: of another trace with another seed, as a deployment would look at
/// yesterday's; of a trace file itself.
RankInclusion planning_statistics(const Scenario& scenario, const RoutingTrace& trace);

/// [layers * experts] uses of every expert by other requests to the same model, as a deployment counts
/// them before serving; of a trace file itself.
std::vector<double> expert_profile(const Scenario& scenario, const RoutingTrace& trace);

}  // namespace moelab
