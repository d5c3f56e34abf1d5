// What the parts of a server share: whom it serves on what, and where that is counted.
#pragma once

namespace moelab {

namespace engine {
class Engine;
class ExpertMirror;
}  // namespace engine
class GraphObserver;
class RoutingTrace;
class TimingModel;
struct ExpertCosts;
struct Metrics;
struct Scenario;
struct ServerResources;
struct SystemConfig;

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
  GraphObserver* observer;       // nullptr: no observer
  engine::ExpertMirror* mirror;  // nullptr: what is kept is not followed
};

}  // namespace moelab
