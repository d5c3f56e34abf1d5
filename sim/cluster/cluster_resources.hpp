// What the servers of a cluster have, as the engine knows it.
#pragma once

#include <vector>

#include "models/cluster.hpp"
#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/network.hpp"

namespace moelab {

struct GpuResources {
  engine::ResourceId compute, link_in, link_out;  // one thing at a time each
};

struct ServerNode {
  engine::ResourceId host;  // the framework's thread
  engine::ResourceId nic;   // what is on its way from this server; the network says how fast
  engine::ResourceId ssd;
  std::uint32_t first_gpu = 0;
  const TimingModel* timing = nullptr;
};

/// Names are the server's, a stroke and the thing's: "server1/gpu0".
struct ClusterResources {
  ClusterResources(engine::Engine& engine, const ClusterProfile& cluster);

  std::vector<TimingModel> timings;  // by device profile
  std::vector<ServerNode> servers;
  std::vector<GpuResources> gpus;        // through all servers
  std::vector<std::uint32_t> server_of;  // by GPU
};

engine::NetworkLaw network_law(const ClusterProfile& cluster);

}  // namespace moelab
