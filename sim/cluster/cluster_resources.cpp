#include "sim/cluster/cluster_resources.hpp"

#include "sim/serving/server_resources.hpp"

namespace moelab {

namespace {

GpuResources add_gpu(engine::Engine& engine, const std::string& server, int number,
                     const DeviceProfile& device) {
  const std::string which = std::to_string(number);
  GpuResources gpu{engine.add_resource(server + (device.gpu ? "gpu" + which : "cpu"), 1), {}};
  if (device.is_discrete())
    gpu.link = {engine.add_resource(server + "link" + which, 1),
                engine.add_resource(server + "link_out" + which, 1)};
  return gpu;
}

void add_capacities(engine::Engine& engine, const std::string& server, ServerNode& node) {
  const DeviceProfile& device = node.timing->device();
  if (device.cpu.sharing && node.timing->computes_on_cpu())
    node.cpu = engine.add_capacity(server + "cpu", {.slowdown = device.cpu.sharing->value});
  if (device.memory.controller && !device.is_discrete() && engine.resolves_chains())
    node.memory =
        engine.add_capacity(server + "memory", {.bandwidth = device.memory.controller->value.value()});
  if (node.cpu == engine::kNoCapacity || !device.cpu.slowdown_while_reading) return;
  // No slower than what is beyond it, which moves bytes: of itself it slows no read.
  const double bandwidth = node.memory != engine::kNoCapacity ? device.memory.controller->value.value() : 1;
  node.reads = engine.add_capacity(server + "reads", {.bandwidth = bandwidth, .beyond = node.memory});
  slow_cpu_while_reading(engine, device, node.cpu, node.reads);
}

}  // namespace

void ServerNode::share_kernel(engine::Graph& graph, engine::OpIndex op, double seconds, double bytes) const {
  if (cpu != engine::kNoCapacity)
    graph.share(op, cpu, seconds);
  else if (memory != engine::kNoCapacity && bytes > 0)
    graph.share(op, memory, seconds, bytes);
}

void ServerNode::share_copy(engine::Graph& graph, engine::OpIndex op, double seconds) const {
  if (cpu != engine::kNoCapacity && timing->copies_on_cpu()) graph.share(op, cpu, seconds);
}

void ServerNode::share_read(engine::Graph& graph, engine::OpIndex op, double seconds, double bytes) const {
  const bool in_bytes = memory != engine::kNoCapacity;
  if (reads != engine::kNoCapacity)
    graph.share(op, reads, seconds, in_bytes ? bytes : seconds);
  else if (in_bytes)
    graph.share(op, memory, seconds, bytes);
}

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
    add_capacities(engine, name, node);
    for (int gpu = 0; gpu < server.gpus; ++gpu) {
      gpus.push_back(add_gpu(engine, name, gpu, cluster.device(number)));
      server_of.push_back(static_cast<std::uint32_t>(number));
    }
  }
  engine.set_network(network_law(cluster));
}

engine::OpIndex add_store_load(LabelledGraph& out, const StoreLoad& load, const ServerNode& node,
                               const GpuResources& gpu, engine::OpIndex after) {
  const auto add = [&](engine::ResourceId resource, double seconds, const OpLabel& label) {
    const engine::OpIndex op = out.graph.add(out.graph.lane(resource), seconds);
    out.labels.push_back(label);
    out.labels.back().bytes = load.bytes.value();
    if (after != engine::kNoOp) out.graph.depend(op, after);
    after = op;
  };
  if (load.from_ssd) {
    const double seconds = node.timing->ssd_read(load.bytes).value();
    add(node.ssd, seconds, load.read);
    const double latency = node.timing->ssd_read(Bytes(0)).value();
    node.share_read(out.graph, after, seconds - latency, load.bytes.value());
  }
  if (gpu.link) {
    const double seconds = node.timing->load(load.bytes).value();
    add(gpu.link->in, seconds, load.copy);
    node.share_copy(out.graph, after, seconds);
  }
  return after;
}

Seconds store_load_seconds(const TimingModel& timing, Bytes bytes, bool from_ssd) {
  Seconds seconds = timing.is_discrete() ? timing.load(bytes) : Seconds(0);
  if (from_ssd) seconds += timing.ssd_read(bytes);
  return seconds;
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
