// A graph that runs while nothing else goes on, from its submission to its end in one go.
//
// That is how a serving loop spends most of its time: it submits a layer and waits for it. Nothing can come
// in between, so the rules of engine.hpp need no queues of graphs, no timers and no processes, and their
// state fits the first-level cache: a few lanes, and the ends of what runs. The records are those of going
// event by event, to the last digit (tests/sim/engine_test.cpp); it is about three times as fast
// (bench/README.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

class LoneGraph {
 public:
  /// More lanes, or more slots in all, than this: event by event. So is what shares a capacity
  /// or the network.
  static constexpr std::size_t kMostLanes = 32;
  static constexpr std::size_t kMostSlots = 64;

  /// Runs a graph that was prepared at 0 seconds since the epoch; `slots` by resource. Returns false, and has
  /// done nothing, when the graph uses a capacity or the network, or has too many lanes or slots. Operations
  /// that can never start (a cycle of dependencies) are left as they are.
  bool run(Graph& graph, std::span<const std::uint32_t> slots);

  double seconds() const { return now_; }                   // since the epoch, at the end
  std::uint64_t operations() const { return operations_; }  // completed

 private:
  struct LaneRun {
    Graph::ReadyBits ready;
    double busy_seconds;
    std::uint32_t free;
    std::uint32_t slots;
    ResourceId resource;
    Lane lane;  // of the graph
  };

  bool prepare(std::span<const std::uint32_t> slots);
  void serve();
  void start(OpIndex op, LaneRun& lane);
  void advance();
  void complete(OpIndex op);
  void meet_dependency(OpIndex op, OpIndex by);

  Graph* graph_ = nullptr;
  std::array<LaneRun, kMostLanes> lanes_;           // in the order of their resources
  std::array<std::uint8_t, kMostLanes> lane_at_{};  // by lane of the graph: its place in lanes_
  std::uint64_t marked_ = 0;                        // a bit a lane: something may start there
  double now_ = 0;
  std::uint64_t operations_ = 0;
  // What runs, latest end first.
  std::size_t running_ = 0;
  std::array<double, kMostSlots> ends_;
  std::array<OpIndex, kMostSlots> what_;
  std::vector<OpIndex> continuing_;
};

}  // namespace moelab::engine
