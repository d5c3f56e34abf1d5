// Flows over a star or a mesh, at rates that need no solver.
//
// A flow's rate is the least, over the links that it crosses, of the link's bandwidth divided by the flows on
// it. No link carries more than its bandwidth: each of n flows takes at most 1/n of it.
//
// Against max-min (the allocation in which every flow has a bottleneck: a full link on which no other flow is
// faster):
// - Where each flow has a single link of limited bandwidth (a mesh; a star of which one side has no limit)
//   the rates are max-min. That link is its bottleneck: its n flows all have the same share and fill it.
// - Elsewhere no flow is ever faster than max-min would make it with the same flows under way. Of max-min's n
//   flows through the bottleneck of one flow, none is faster than that one and they fill the link: its rate
//   is at least bandwidth / n, of which ours is the least over all its links. What we leave unused is what
//   other flows there cannot take, being limited at their other end. (Later ends do not follow flow by flow:
//   who is slow today leaves room elsewhere, in either allocation.)
//
// A flow that joins, ends or meets another bandwidth concerns the flows of its two links and no others; all
// that changes at one instant is worked out once, before time moves on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "sim/engine/moment_heap.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/shared_capacity.hpp"

namespace moelab::engine {

class FairNetwork {
 public:
  /// Throws InputError for a law that is wrong, or that is a platform's.
  explicit FairNetwork(const NetworkLaw& law);

  std::size_t nodes() const { return nodes_.size(); }
  /// Of a flow that has the network to itself: bytes a second.
  double bandwidth(NodeId from, NodeId to) const { return std::min(nodes_[from].out, nodes_[to].in); }

  /// A flow joins at `flow.end` (now), with bytes > 0.
  void join(const InFlight& flow, NodeId from, NodeId to, double bytes);
  void set_node(NodeId node, NetworkLaw::Node bandwidth, double now);

  /// Works out what has changed at this instant; before next_end() and before time moves on.
  void settle();
  double next_end() const { return ends_.next(); }
  /// Takes out the next flow, at its end.
  InFlight take_next(double now);

 private:
  static constexpr std::uint32_t kNoLink = std::numeric_limits<std::uint32_t>::max();
  struct Flow {
    Graph* graph;
    OpIndex op;
    double left;                          // bytes, at `since`
    double rate;                          // bytes a second
    double since;                         // when that was so
    std::array<std::uint32_t, 2> links;   // of a mesh the second is kNoLink
    std::array<std::uint32_t, 2> places;  // there
  };
  struct Link {
    double bandwidth = 0;
    double share = 0;  // of each flow
    std::vector<std::uint32_t> flows;
    bool changed = false;
    std::uint64_t pair = 0;  // of a mesh: sender and receiver
  };

  std::uint64_t pair(NodeId from, NodeId to) const { return std::uint64_t{from} << 32 | to; }
  std::uint32_t link_of_pair(NodeId from, NodeId to);
  void mark(std::uint32_t link, double now);
  void put(std::uint32_t flow, std::size_t side, std::uint32_t link);
  void leave(std::uint32_t flow, std::size_t side);
  void set_bandwidth(std::uint32_t link, double bandwidth, double now);
  void set_rate(std::uint32_t flow);

  bool mesh_;
  std::vector<NetworkLaw::Node> nodes_;
  std::vector<Link>
      links_;  // star: ways out, then ways in. mesh: those of pairs that have flows, and free ones
  std::vector<std::uint32_t> free_links_;
  std::unordered_map<std::uint64_t, std::uint32_t> link_of_pair_;  // looked up only, never iterated
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_flows_;
  MomentHeap ends_;  // of flows, by number
  std::vector<std::uint32_t> changed_;
  double now_ = 0;  // when those changed
};

}  // namespace moelab::engine
