// A graph in an engine that has nothing else to do.
#pragma once

#include "sim/engine/engine.hpp"

namespace moelab::test {

/// Submits the graph when run() begins and runs until nothing is left.
inline void run_alone(engine::Engine& engine, engine::Graph& graph) {
  const auto play = [&]() -> engine::Process {
    engine.submit(graph, engine::kDemand);
    co_await engine.finished(graph);
  };
  engine::Process process = play();
  engine.spawn(process);
  engine.run();
}

}  // namespace moelab::test
