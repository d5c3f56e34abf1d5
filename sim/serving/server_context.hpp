// What the parts of a server share: whom it serves on what, and where that is counted.
#pragma once

#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/expert_mirror.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/serving/server_resources.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// Everything by reference outlives the parts.
struct ServerContext {
  engine::Engine& engine;
  const Scenario& scenario;
  const SystemConfig& system;
  const RoutingTrace& trace;
  const ExpertCosts& costs;
  const TimingModel& timing;
  const ServerResources& resources;
  Metrics& metrics;
  GraphObserver* observer;       // nullptr: nobody looks
  engine::ExpertMirror* mirror;  // nullptr: nobody follows what is kept
};

}  // namespace moelab
