// What stands behind the hardware engine: something that really does an operation.
#pragma once

#include <cstddef>
#include <stop_token>

#include "sim/engine/graph.hpp"

namespace moelab {

/// What any of these throw ends the run with that error.
class Machine {
 public:
  virtual ~Machine() = default;
  /// On the engine's thread, before the operation is handed to a thread of its resource: the place to take
  /// memory.
  virtual void begin(const engine::Graph& graph, engine::OpIndex op) = 0;
  /// On a thread of the operation's resource, as many at once as it has slots. Returns when the work is done,
  /// or soon where `stop` was requested: the run is then over and its result not used.
  virtual void run(const engine::Graph& graph, engine::OpIndex op, std::stop_token stop) = 0;
  /// On the engine's thread, after run() has returned: before anything that depends on it begins.
  virtual void end(const engine::Graph& graph, engine::OpIndex op) = 0;
};

}  // namespace moelab
