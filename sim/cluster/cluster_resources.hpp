// What the servers of a cluster have, as the engine knows it.
#pragma once

#include <optional>
#include <vector>

#include "models/cluster.hpp"
#include "models/timing.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/labelled_graph.hpp"
#include "sim/engine/network.hpp"

namespace moelab {

/// Between a GPU's memory and its host's; one thing at a time each way.
struct GpuLink {
  engine::ResourceId in, out;
};

/// A GPU, or the CPU of a server without one.
struct GpuResources {
  engine::ResourceId compute;   // one thing at a time
  std::optional<GpuLink> link;  // none: it works in the host's memory
};

struct ServerNode {
  engine::ResourceId host;  // the framework's thread
  engine::ResourceId nic;   // what is on its way from this server; the network says how fast
  engine::ResourceId ssd;
  std::uint32_t first_gpu = 0;
  const TimingModel* timing = nullptr;
  /// What its CPU does at once (cpu.sharing): kernels where it computes, copies where it plays a GPU.
  engine::CapacityId cpu = engine::kNoCapacity;
  /// Its memory controller, where the executor resolves it and there is one memory.
  engine::CapacityId memory = engine::kNoCapacity;
  /// What reads of its SSD use, one at a time, where they slow the CPU (cpu.slowdown_while_reading); those of
  /// a server's own expert cache have a capacity of their own (home_store.cpp).
  engine::CapacityId reads = engine::kNoCapacity;

  /// Lets an operation of `seconds` share what it computes with: hand-overs are not stretched. `bytes`: that
  /// it moves through memory.
  void share_kernel(engine::Graph& graph, engine::OpIndex op, double seconds, double bytes) const;
  /// Likewise one that copies `bytes` over the link; of a played GPU the CPU copies.
  void share_copy(engine::Graph& graph, engine::OpIndex op, double seconds) const;
  /// Likewise one that reads them from the SSD into the memory.
  void share_read(engine::Graph& graph, engine::OpIndex op, double seconds, double bytes) const;
};

/// Names are the server's, a stroke and the thing's: "server1/gpu0"; of a server without GPU "server1/cpu".
struct ClusterResources {
  ClusterResources(engine::Engine& engine, const ClusterProfile& cluster);

  std::vector<TimingModel> timings;  // by device profile
  std::vector<ServerNode> servers;
  std::vector<GpuResources> gpus;        // through all servers
  std::vector<std::uint32_t> server_of;  // by GPU
};

/// An expert on its way from its server's own store to a GPU of that server.
struct StoreLoad {
  Bytes bytes;
  bool from_ssd = false;  // else from the host's memory
  OpLabel read, copy;     // of what the SSD does, and the link
};
/// Adds it, behind operation `after` (engine::kNoOp: at once), and gives its last operation; `after` where
/// there is nothing to cross.
engine::OpIndex add_store_load(LabelledGraph& out, const StoreLoad& load, const ServerNode& node,
                               const GpuResources& gpu, engine::OpIndex after);
/// What that takes with everything to itself.
Seconds store_load_seconds(const TimingModel& timing, Bytes bytes, bool from_ssd);

engine::NetworkLaw network_law(const ClusterProfile& cluster);

}  // namespace moelab
