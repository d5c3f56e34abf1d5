// The network between the servers of a cluster: what Graph::flow sends over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab::engine {

/// Flows that meet share what they cross; no latency but a platform's, and no protocol: SimGrid's preference
/// of short routes, which models TCP, is off.
struct NetworkLaw {
  enum class Topology : std::uint8_t { star, mesh, platform };
  /// Bytes a second out of and into a node, above 0; infinity: no limit.
  struct Node {
    double out = 0, in = 0;
  };

  Topology topology = Topology::star;
  // star: a flow crosses its sender's way out and its receiver's way in. mesh: each ordered pair has a link
  // of its own, of min(out of the sender, in of the receiver).
  std::vector<Node> nodes;
  // platform (`simgrid` only): a SimGrid platform file, and which of its hosts the nodes are. Latencies and
  // bandwidths are the file's; a node of it sends whole bytes.
  std::string platform_file;
  std::vector<std::string> hosts;
};

/// Nodes that the law has.
inline std::size_t nodes_of(const NetworkLaw& law) {
  return law.topology == NetworkLaw::Topology::platform ? law.hosts.size() : law.nodes.size();
}

}  // namespace moelab::engine
