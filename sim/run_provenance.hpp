// Where a result's numbers come from, and what it rests on that its reader should know.
#pragma once

namespace moelab {

class RoutingTrace;
struct RunResult;
struct Scenario;
struct SystemConfig;

/// Adds both to the result: lines of `provenance`, and `warnings`.
void add_provenance(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace,
                    RunResult& result);

}  // namespace moelab
