// The executor that knows how long everything takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/fair_network.hpp"
#include "sim/engine/graph.hpp"
#include "sim/engine/running_set.hpp"
#include "sim/engine/shared_capacities.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab::engine {

/// An executor is the narrow door behind the dispatcher:
///   kName                               for results
///   kResolvesChains                     whether what crosses a capacity uses what is beyond it too
///   kOwnClock                           true: time is counted from the start of the run and is never set;
///                                       false: from the dispatcher's epoch
///   add_capacity(law)                   before anything starts
///   set_network(law)                    before anything starts, once at most
///   prepare(most, slots)                when a run begins: at most `most` operations run at once, on each
///                                       resource `slots` of it
///   start(graph, op, now)               the operation begins
///   set_factor(capacity, factor, now)   what is busy slows the capacity's users from now on, all together
///   set_node(node, bandwidth, now)      so fast from now on
///   flow_seconds(from, to, bytes)       of a flow that is alone
///   nodes()                             that flows may name
///   drive(limit, round)                 runs until nothing is in flight and no limit is set. At each instant
///   at
///                                       which operations end, or that the limit named (then none do), calls
///                                       limit = round(now, ended)
class FastExecutor {
 public:
  static constexpr const char* kName = "fast";
  static constexpr bool kResolvesChains = false;
  static constexpr bool kOwnClock = false;

  void add_capacity(const CapacityLaw& law) { shared_.add(law); }
  void set_network(const NetworkLaw& law) { network_.emplace(law); }
  void prepare(std::size_t, std::span<const std::uint32_t>) {}

  void start(Graph& graph, OpIndex op, double now) {
    const double seconds = graph.seconds(op);
    if (graph.capacity(op) == kNoCapacity) return running_.insert({now + seconds, &graph, op});
    if (graph.capacity(op) == kNetwork) return start_flow(graph, op, now);
    const double alone = seconds - graph.shared_seconds(op);  // first what no other user stretches
    if (alone > 0)
      running_.insert({now + alone, &graph, op, Then::shares});
    else
      shared_.join({now, &graph, op});
  }
  void set_factor(CapacityId capacity, double factor, double now) {
    shared_.set_factor(capacity, factor, now);
  }
  void set_node(NodeId node, NetworkLaw::Node bandwidth, double now) {
    network_->set_node(node, bandwidth, now);
  }
  double flow_seconds(NodeId from, NodeId to, double bytes) const {
    return bytes / network_->bandwidth(from, to);
  }
  std::size_t nodes() const { return network_ ? network_->nodes() : 0; }

  template <class Round>
  void drive(double limit, Round round) {
    for (;;) {
      const double now = next_instant(limit);
      if (now == kNever) return;
      ended_.clear();
      // Before a user joins: that would round what is left.
      while (shared_.next_end() == now) ended_.push_back(shared_.take_next(now));
      while (network_ && network_->next_end() == now) ended_.push_back(network_->take_next(now));
      while (running_.next_end() == now) go_on(running_.take_next());
      if (!ended_.empty() || now == limit) limit = round(now, std::span(ended_));
    }
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double next_instant(double limit) {
    const double next = std::min({limit, running_.next_end(), shared_.next_end()});
    if (!network_) return next;
    network_->settle();
    return std::min(next, network_->next_end());
  }
  void start_flow(Graph& graph, OpIndex op, double now) {
    if (graph.seconds(op) > 0) return running_.insert({now + graph.seconds(op), &graph, op, Then::flows});
    send({now, &graph, op});
  }
  /// At `flow.end`, which is now.
  void send(const InFlight& flow) {
    const Graph::Flow& what = flow.graph->flow(flow.op);
    if (flow_seconds(what.from, what.to, what.bytes) > 0)
      network_->join(flow, what.from, what.to, what.bytes);
    else
      running_.insert({flow.end, flow.graph, flow.op});
  }
  /// An operation's own seconds are over.
  void go_on(const Running& entry) {
    const InFlight what{entry.end, entry.graph, entry.op};
    switch (entry.then) {
      case Then::ends:
        ended_.push_back(what);
        break;
      case Then::shares:
        shared_.join(what);
        break;
      case Then::flows:
        send(what);
        break;
    }
  }

  RunningSet running_;
  SharedCapacities shared_;
  std::optional<FairNetwork> network_;
  std::vector<InFlight> ended_;
};

}  // namespace moelab::engine
