// The executor that knows how long everything takes.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// An operation in flight or just ended.
struct InFlight {
  double end;
  Graph* graph;
  OpIndex op;
};

class FastExecutor {
 public:
  static constexpr const char* kName = "fast";

  /// The operation begins at `now` and will take `seconds`.
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

  bool idle() const { return running_.empty(); }

  /// Goes to the next completion, or to `limit` if that is earlier; appends every operation that ends at that
  /// instant. Returns the instant. With nothing running and no limit there is no such instant: not called
  /// then.
  double advance(double limit, std::vector<InFlight>& ended) {
    if (running_.empty() || running_.back().end > limit) return limit;
    const double now = running_.back().end;
    do {
      ended.push_back(running_.back());
      running_.pop_back();
    } while (!running_.empty() && running_.back().end == now);
    return now;
  }

 private:
  std::vector<InFlight> running_;
};

}  // namespace moelab::engine
