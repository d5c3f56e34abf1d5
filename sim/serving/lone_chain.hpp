// Operations one behind the other, of a step that nothing else can meet: what a graph of them would come to,
// without the graph.
//
// Each starts when the one before ends, on a resource that nothing else uses, and shares no capacity: what
// LoneGraph makes of such a graph is a sum, and so is its critical path. The same to the last digit
// (tests/sim/paged_rows_test.cpp).
#pragma once

#include <array>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

class LoneChain {
 public:
  /// `engine` outlives it.
  explicit LoneChain(engine::Engine& engine) : engine_(engine) {}

  /// Of Outcome::kMostLanes resources at most. Throws TooLong.
  void add(engine::ResourceId resource, double seconds, Cause cause);
  /// They have run: moves the engine's time on, which is alone, and forgets them. What each cause took.
  std::array<double, kCauses> run();

 private:
  struct Part {
    Cause cause;
    double seconds;
  };
  engine::Engine& engine_;
  engine::Outcome outcome_;
  std::vector<Part> parts_;
};

}  // namespace moelab
