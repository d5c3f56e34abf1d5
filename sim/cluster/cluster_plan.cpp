#include "sim/cluster/cluster_plan.hpp"

#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "models/timing.hpp"
#include "sim/serving/memory_plan.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kBlockTokens = 16;

struct LongestRequest {
  std::uint64_t tokens = 1;  // in its cache at its end
  std::uint64_t rows = 1;    // of its longest step: the prompt, with what came after if it is run again
};

LongestRequest longest_request(const std::vector<std::vector<ServedRequest>>& requests) {
  LongestRequest longest;
  for (const auto& of_server : requests)
    for (const ServedRequest& q : of_server)
      longest.tokens = std::max(longest.tokens, final_tokens(batch_request(q)));
  longest.rows = longest.tokens;
  return longest;
}

/// Enough blocks for the largest batch, so that nobody is ever preempted.
BatchingShape batching_shape(const Scenario& s, const LongestRequest& longest) {
  BatchingShape shape;
  shape.kv.block_tokens = kBlockTokens;
  // Some requests more: policies may keep a share of the blocks free.
  const std::uint64_t requests = s.workload.batch + s.workload.batch / 16 + 2;
  shape.kv.gpu_blocks = requests * (kv_blocks(longest.tokens, kBlockTokens) + 1);
  shape.max_requests = s.workload.batch;
  shape.max_tokens = static_cast<std::uint32_t>(std::max<std::uint64_t>(longest.rows, s.workload.batch));
  return shape;
}

ServerMemory plan_server(const Scenario& s, const ClusterServer& server, const DeviceProfile& device,
                         const LongestRequest& longest, bool migrates) {
  ServerMemory m;
  m.budget = server.budget.value_or(s.budget);
  check_budget(s.name, m.budget, device);
  m.non_expert = non_expert_bytes(s.model);
  m.kv_cache = s.workload.batch * (static_cast<double>(longest.tokens) * kv_bytes_per_token(s.model) +
                                   state_bytes_per_request(s.model));
  m.activations = activation_bytes(s.model, longest.rows, s.workload.batch);
  if (migrates) m.staging = expert_bytes(s.model);
  const Bytes received = activation_bytes(s.model, longest.rows, 0);
  for (int gpu = 0; gpu < server.gpus; ++gpu) {
    const Bytes taken = gpu == 0 ? m.non_expert + m.kv_cache + m.activations : received;
    if (taken + m.staging > m.budget)
      throw InputError(s.name, "budget " + to_string(m.budget) + " is too small for server '" + server.name +
                                   "': it needs " + to_string(taken + m.staging) +
                                   " before it can hold a single expert (non-expert weights " +
                                   to_string(m.non_expert) + ", KV cache " + to_string(m.kv_cache) +
                                   ", activations " + to_string(m.activations) + ", staging " +
                                   to_string(m.staging) + ")");
    m.experts.push_back(m.budget - taken - m.staging);
  }
  return m;
}

/// At which an expert gets into one of a server's GPUs, all that it crosses one after the other.
double load_rate(const Scenario& s, const SystemConfig& system, std::size_t server) {
  const ClusterProfile& cluster = s.cluster->profile;
  const TimingModel timing(cluster.device(server));
  const Bytes expert = expert_bytes(s.model);
  Seconds seconds = timing.load(expert);
  const MigrationConfig migration = system.placed->migration.value_or(MigrationConfig());
  if (migration.load_from == MigrationConfig::From::ssd) seconds += timing.ssd_read(expert);
  if (migration.load_from == MigrationConfig::From::network &&
      cluster.network.topology != ClusterNetwork::Topology::platform)
    seconds += expert / cluster.servers[server].in + cluster.network.latency;
  return (expert / seconds).value();
}

PlacementShape placement_shape(const Scenario& s, const SystemConfig& system,
                               const std::vector<ServerMemory>& memory) {
  PlacementShape shape;
  shape.layers = static_cast<std::uint32_t>(s.model.moe_layers().size());
  shape.experts = static_cast<std::uint32_t>(s.model.moe().experts);
  shape.expert_bytes = expert_bytes(s.model).value();
  shape.copies = system.placed->copies;
  shape.seed = s.seed;
  for (std::size_t server = 0; server < memory.size(); ++server) {
    PlacementServer& p = shape.servers.emplace_back();
    for (const Bytes experts : memory[server].experts) p.gpu_bytes.push_back(experts.value());
    p.load_bytes_per_second = load_rate(s, system, server);
  }
  return shape;
}

}  // namespace

ClusterPlan plan_cluster(const Scenario& s, const SystemConfig& system,
                         const std::vector<std::vector<ServedRequest>>& requests,
                         const ActivationCounts& history) {
  const LongestRequest longest = longest_request(requests);
  const ClusterProfile& cluster = s.cluster->profile;
  std::vector<ServerMemory> memory;
  for (std::size_t server = 0; server < cluster.servers.size(); ++server)
    memory.push_back(plan_server(s, cluster.servers[server], cluster.device(server), longest,
                                 system.placed->migration.has_value()));
  const PlacementShape shape = placement_shape(s, system, memory);
  const PolicyChoice& policy = system.placed->placement;
  return {memory, shape, find_placement_policy(policy.name)->place(shape, history, policy.parameters),
          batching_shape(s, longest)};
}

}  // namespace moelab
