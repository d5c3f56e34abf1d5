// The executor that knows how long everything takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "sim/engine/capacity.hpp"
#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// An executor is the narrow door behind the dispatcher:
///   kName                               for results
///   kResolvesChains                     whether what crosses a capacity uses what is beyond it too
///   kOwnClock                           true: time is counted from the start of the run and nobody moves it;
///                                       false: from the dispatcher's epoch
///   add_capacity(law)                   before anything starts
///   prepare(most, slots)                when a run begins: at most `most` operations run at once, on each
///                                       resource `slots` of it
///   start(graph, op, now)               the operation begins
///   set_factor(capacity, factor, now)   what is busy slows the capacity's users from now on, all together
///   drive(limit, round)                 runs until nothing is in flight and no limit is set. At each instant
///   at
///                                       which operations end, or that the limit named (then none do), calls
///                                       limit = round(now, ended)
class FastExecutor {
 public:
  static constexpr const char* kName = "fast";
  static constexpr bool kResolvesChains = false;
  static constexpr bool kOwnClock = false;

  void add_capacity(const CapacityLaw& law) { shared_.emplace_back(law); }
  void prepare(std::size_t, std::span<const std::uint32_t>) {}

  void start(Graph& graph, OpIndex op, double now) {
    const double seconds = graph.seconds(op);
    if (graph.capacity(op) == kNoCapacity) return run({now + seconds, &graph, op});
    const double alone = seconds - graph.shared_seconds(op);  // first what nobody stretches
    if (alone > 0)
      run({now + alone, &graph, op, true});
    else
      share({now, &graph, op});
  }
  void set_factor(CapacityId capacity, double factor, double now) {
    shared_[capacity].set_factor(factor, now);
  }

  template <class Round>
  void drive(double limit, Round round) {
    for (;;) {
      const double now = std::min({limit, next_end(), next_shared_end()});
      if (now == kNever) return;
      ended_.clear();
      if (sharing_ > 0) end_sharing(now);  // before somebody joins: that would round what is left
      while (next_end() == now) {
        const Running next = running_.back();
        running_.pop_back();
        if (next.then_shared)
          share({now, next.graph, next.op});
        else
          ended_.push_back({now, next.graph, next.op});
      }
      if (!ended_.empty() || now == limit) limit = round(now, std::span(ended_));
    }
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Running {
    double end;
    Graph* graph;
    OpIndex op;
    bool then_shared = false;  // what ends is its part that nobody stretches
  };

  void run(const Running& entry) {
    // Latest end first. Few operations run at a time (as many as there are slots), so insertion beats a heap.
    std::size_t i = running_.size();
    running_.push_back(entry);
    while (i > 0 && running_[i - 1].end < entry.end) {
      running_[i] = running_[i - 1];
      --i;
    }
    running_[i] = entry;
  }
  void share(const InFlight& entry) {
    shared_[entry.graph->capacity(entry.op)].join(entry, entry.graph->shared_seconds(entry.op));
    ++sharing_;
  }
  double next_end() const { return running_.empty() ? kNever : running_.back().end; }
  double next_shared_end() const {
    double next = kNever;
    if (sharing_ > 0)
      for (const SharedCapacity& capacity : shared_) next = std::min(next, capacity.next_end());
    return next;
  }
  void end_sharing(double now) {
    for (SharedCapacity& capacity : shared_)
      while (capacity.next_end() == now) {
        ended_.push_back(capacity.take_next(now));
        --sharing_;
      }
  }

  std::vector<Running> running_;
  std::vector<SharedCapacity> shared_;
  std::size_t sharing_ = 0;  // operations that use one now
  std::vector<InFlight> ended_;
};

}  // namespace moelab::engine
