// What the servers of one run share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "policies/compression_state.hpp"
#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/cluster_resources.hpp"
#include "sim/cluster/live_placement.hpp"
#include "sim/cluster/recent_uses.hpp"
#include "sim/cluster/remote_cost.hpp"
#include "sim/engine/change_bell.hpp"
#include "sim/engine/engine.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/servers_present.hpp"

namespace moelab {

class HomeStore;

struct ClusterWorld : ServersPresent {
  /// Everything by reference outlives the world. `history`: what the plan's placement was made from.
  ClusterWorld(engine::Engine& e, const Scenario& s, const SystemConfig& sys, const RoutingTrace& r,
               const ClusterPlan& p, const ActivationCounts& h)
      : ServersPresent(p.memory.size()), engine(e), scenario(s), system(sys), rows(r), plan(p), history(h) {}

  engine::Engine& engine;
  const Scenario& scenario;
  const SystemConfig& system;
  const RoutingTrace& rows;
  const ClusterPlan& plan;
  const ActivationCounts& history;
  GraphObserver* observer = nullptr;

  ClusterResources resources{engine, scenario.cluster->profile};
  LivePlacement live{plan.shape, plan.placement};
  RecentUses uses{plan.shape, system.placed->migration};
  RemoteCost remote{system.placed->migration};
  /// Rings when an expert has come, servers leave or return, or are done, and when experts are placed anew.
  ChangeBell changes{engine};
  /// Whether experts that no server holds can come back.
  bool hopeful = true;

  /// By server, where servers load what they lack; else empty.
  std::vector<HomeStore*> stores;
  /// By server: places in the pools of its cache, where the cache has such; else empty.
  std::vector<std::array<std::uint32_t, kStates>> pools;

  const PlacedConfig& placed() const { return *system.placed; }
};

}  // namespace moelab
