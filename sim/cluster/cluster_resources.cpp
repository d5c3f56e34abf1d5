#include "sim/cluster/cluster_resources.hpp"

namespace moelab {

ClusterResources::ClusterResources(engine::Engine& engine, const ClusterProfile& cluster) {
  for (const DeviceProfile& device : cluster.devices) timings.emplace_back(device);
  for (std::size_t number = 0; number < cluster.servers.size(); ++number) {
    const ClusterServer& server = cluster.servers[number];
    const std::string name = server.name + "/";
    ServerNode& node = servers.emplace_back();
    node.host = engine.add_resource(name + "host", 1);
    node.nic = engine.add_resource(name + "network", engine::kUnlimitedSlots);
    node.ssd = engine.add_resource(name + "ssd", 1);
    node.first_gpu = static_cast<std::uint32_t>(gpus.size());
    node.timing = &timings[cluster.device_of[number]];
    for (int gpu = 0; gpu < server.gpus; ++gpu) {
      const std::string which = std::to_string(gpu);
      gpus.push_back({engine.add_resource(name + "gpu" + which, 1),
                      engine.add_resource(name + "link" + which, 1),
                      engine.add_resource(name + "link_out" + which, 1)});
      server_of.push_back(static_cast<std::uint32_t>(number));
    }
  }
  engine.set_network(network_law(cluster));
}

engine::NetworkLaw network_law(const ClusterProfile& cluster) {
  using Topology = engine::NetworkLaw::Topology;
  engine::NetworkLaw law;
  law.platform_file = cluster.network.platform_file;
  switch (cluster.network.topology) {
    case ClusterNetwork::Topology::star:
      law.topology = Topology::star;
      break;
    case ClusterNetwork::Topology::mesh:
      law.topology = Topology::mesh;
      break;
    case ClusterNetwork::Topology::platform:
      law.topology = Topology::platform;
      break;
  }
  for (const ClusterServer& server : cluster.servers) {
    law.nodes.push_back({server.out.value(), server.in.value()});
    if (law.topology == Topology::platform) law.hosts.push_back(server.host);
  }
  return law;
}

}  // namespace moelab
