// The executor that knows how long everything takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// An operation in flight or just ended.
struct InFlight {
  double end;
  Graph* graph;
  OpIndex op;
};

/// An executor is the narrow door behind the dispatcher:
///   kName                           for results
///   kSharesCapacities               true: the executor itself slows operations that share a capacity; false:
///   the
///                                   dispatcher stretches their seconds as things are when they start
///   kOwnClock                       true: time is counted from the start of the run and nobody moves it;
///   false:
///                                   from the dispatcher's epoch
///   add_capacity(slowdown)          before drive(); only called when kSharesCapacities
///   start(graph, op, now, seconds)  the operation begins
///   drive(limit, round)             runs until nothing is in flight and no limit is set. At each instant at
///   which
///                                   operations end, or that the limit named (then none do), calls
///                                   limit = round(now, ended)
class FastExecutor {
 public:
  static constexpr const char* kName = "fast";
  static constexpr bool kSharesCapacities = false;
  static constexpr bool kOwnClock = false;

  void start(Graph& graph, OpIndex op, double now, double seconds) {
    const InFlight entry{now + seconds, &graph, op};
    // Latest end first. Few operations run at a time (as many as there are slots), so insertion beats a heap.
    std::size_t i = running_.size();
    running_.push_back(entry);
    while (i > 0 && running_[i - 1].end < entry.end) {
      running_[i] = running_[i - 1];
      --i;
    }
    running_[i] = entry;
  }

  template <class Round>
  void drive(double limit, Round round) {
    while (!running_.empty() || limit != std::numeric_limits<double>::infinity()) {
      ended_.clear();
      double now = limit;
      if (!running_.empty() && running_.back().end <= limit) {
        now = running_.back().end;
        do {
          ended_.push_back(running_.back());
          running_.pop_back();
        } while (!running_.empty() && running_.back().end == now);
      }
      limit = round(now, std::span(ended_));
    }
  }

 private:
  std::vector<InFlight> running_;
  std::vector<InFlight> ended_;
};

}  // namespace moelab::engine
