// How the memory of a cluster's GPUs is spent, and where the experts lie at the start.
#pragma once

#include <cstdint>
#include <vector>

#include "models/nothing_fits.hpp"
#include "policies/batching/batching.hpp"
#include "policies/placement/placement.hpp"
#include "sim/cluster/cluster_requests.hpp"
#include "sim/serving/memory_plan.hpp"

namespace moelab {

/// Where a server finds experts that no other server sends.
enum class ExpertStore : std::uint8_t {
  host,  // its host memory, which holds all of them beside its GPUs' memory
  ssd    // there is one memory, or the host's is too small
};

/// Of each GPU of a server, or of the one memory that it has; non-expert weights, KV cache and logits are the
/// first one's alone.
struct ServerMemory {
  Bytes budget;
  Bytes non_expert, kv_cache;  // non-expert weights with those of what drafts tokens
  Bytes activations;           // of the first GPU; the others' have the rows that they are sent, no more
  Bytes staging;               // room for an expert that is on its way, where experts migrate
  Bytes loading;               // of the first GPU: experts that a step loads, as many as can be in use
  std::vector<Bytes> experts;  // by GPU: what is left for those that are placed
  ExpertStore store = ExpertStore::host;
  /// Where servers load what they lack: the cache of the first GPU (expert_cache), what a step loads
  /// (staging), and the host's memory behind it, or the page cache.
  MemoryPlan home;
};

/// Thrown for a system whose servers have no room for what they need beside experts, or together none for
/// the experts.
class ClusterLacksMemory : public NothingFits {
 public:
  /// `memory`: of the server, or, with a budget of all servers' room for experts, of all; its shortfall is
  /// above 0.
  ClusterLacksMemory(const std::string& scenario, const std::string& what, const MemoryPlan& memory)
      : NothingFits(scenario, what), memory_(memory) {}
  const MemoryPlan& memory() const { return memory_; }

 private:
  MemoryPlan memory_;
};

struct ExpertCosts;

struct ClusterPlan {
  std::vector<ServerMemory> memory;  // by server
  PlacementShape shape;
  Placement placement;  // at the start
  BatchingShape batching;
};

/// budget - non-expert weights - KV cache of the `batch` longest requests - activations - staging - loading =
/// experts, of which a cache has its share (PlacedConfig::cache_share). Throws ClusterLacksMemory for a
/// server whose first GPU cannot hold the rest, and where the GPUs together cannot hold the experts as often
/// as they are to be there; InputError for a budget beyond a device's memory, and for migration from host
/// memory (load_from: host) where a server's is not another memory than its GPU's, or does not hold all
/// experts.
ClusterPlan plan_cluster(const Scenario& scenario, const SystemConfig& system,
                         const std::vector<std::vector<ServedRequest>>& requests,
                         const ActivationCounts& history);

/// Of a server, as it stores and loads experts.
ExpertCosts home_costs(const Scenario& scenario, const SystemConfig& system, std::size_t server);

}  // namespace moelab
