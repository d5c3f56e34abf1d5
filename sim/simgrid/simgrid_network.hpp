// A network under SimGrid: a star or a mesh is built of its hosts and links, a platform is a file that it
// reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <simgrid/s4u.hpp>
#include <vector>

#include "sim/engine/network.hpp"

namespace moelab::engine {

namespace sg4 = simgrid::s4u;

/// SimGrid's sizes are whole numbers. Throws InputError for what is more than they hold.
std::uint64_t simgrid_size(double units);

/// The network as SimGrid's hosts, links and routes.
class SimGridNetwork {
 public:
  /// Nodes of a mesh: it has a link for each ordered pair (65,280 of 256 nodes).
  static constexpr std::size_t kMostOfMesh = 256;

  /// Loads a platform file. Throws InputError for a law that is wrong, a mesh that is too large, and a file
  /// that SimGrid cannot use.
  explicit SimGridNetwork(const NetworkLaw& law);

  /// Makes hosts, links and routes of a star or mesh in `star`, a star zone that is not sealed.
  void build(sg4::NetZone& star);
  std::size_t nodes() const { return nodes_of(law_); }
  void set_node(NodeId node, NetworkLaw::Node bandwidth);

  /// Bytes a second and seconds, of a flow that is alone.
  double bandwidth(NodeId from, NodeId to) const;
  double latency(NodeId from, NodeId to) const {
    return latencies_.empty() ? 0 : latencies_[from * hosts_.size() + to];
  }
  /// Whether so many bytes take any time, beyond the latency.
  bool takes_time(NodeId from, NodeId to, double bytes) const;
  /// Gives a message that has not started its size and ends: it starts.
  void send(sg4::Comm& message, NodeId from, NodeId to, double bytes) const;

 private:
  void load();
  void build_star(sg4::NetZone& star);
  void build_mesh(sg4::NetZone& mesh);
  std::uint64_t size_of(double bytes) const;
  void set_bandwidths(NodeId from, NodeId to, double factor) const;

  NetworkLaw law_;    // bandwidths as they are now
  double units_ = 1;  // SimGrid's sizes are whole numbers: so many for a byte
  std::vector<sg4::Host*> hosts_;
  // Star: out of each node, then into each. Mesh: of each pair. nullptr: no limit, or no pair.
  std::vector<sg4::Link*> links_;
  std::vector<double> latencies_;  // platform: of each pair
};

}  // namespace moelab::engine
