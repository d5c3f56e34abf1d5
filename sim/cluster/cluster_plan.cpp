#include "sim/cluster/cluster_plan.hpp"

#include <algorithm>
#include <cmath>

#include "models/input_error.hpp"
#include "models/nothing_fits.hpp"
#include "models/timing.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "policies/placement/room.hpp"
#include "sim/cluster/cluster_resources.hpp"
#include "sim/cluster/run_alone.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/memory_plan.hpp"

namespace moelab {
namespace {

constexpr std::uint32_t kBlockTokens = 16;

struct LongestRequest {
  std::uint64_t tokens = 1;  // in its cache at its end
  std::uint64_t rows = 1;    // of its longest step: the prompt, with what came after if it is run again, or a
                             // batch of drafts
};

LongestRequest longest_request(const Scenario& s, const std::vector<std::vector<ServedRequest>>& requests) {
  LongestRequest longest;
  for (const auto& of_server : requests)
    for (const ServedRequest& q : of_server)
      longest.tokens = std::max(longest.tokens, final_tokens(batch_request(q)));
  longest.rows = longest.tokens;
  if (s.speculation.any())
    longest.rows = std::max(longest.rows, std::uint64_t{s.workload.batch} * decode_rows(s.speculation));
  return longest;
}

/// Enough blocks for the largest batch, so that no request is ever preempted.
BatchingShape batching_shape(const Scenario& s, const LongestRequest& longest) {
  BatchingShape shape;
  shape.kv.block_tokens = kBlockTokens;
  // Some requests more: policies may keep a share of the blocks free.
  const std::uint64_t requests = s.workload.batch + s.workload.batch / 16 + 2;
  shape.kv.gpu_blocks = requests * (kv_blocks(longest.tokens, kBlockTokens) + 1);
  shape.max_requests = s.workload.batch;
  shape.max_tokens = static_cast<std::uint32_t>(std::max<std::uint64_t>(longest.rows, s.workload.batch));
  shape.drafts = s.speculation.tokens;
  return shape;
}

Bytes all_experts(const Architecture& model) {
  return model.moe().experts * static_cast<double>(model.moe_layers().size()) * expert_bytes(model);
}

Bytes usable_host(const DeviceProfile& device) {
  return device.memory.total.value - device.memory.system_reserve.value;
}

/// What experts take in the host's memory or on the SSD: as they are, or compressed.
Bytes stored_experts(const Scenario& s, const SystemConfig& system, std::size_t server) {
  if (!system.placed->loads()) return all_experts(s.model);
  return all_experts(s.model) * (home_costs(s, system, server).stored / expert_bytes(s.model));
}

ExpertStore expert_store(const Scenario& s, const SystemConfig& system, std::size_t server) {
  const DeviceProfile& device = s.cluster->profile.device(server);
  const bool beside = device.is_discrete() && stored_experts(s, system, server) <= usable_host(device);
  return beside ? ExpertStore::host : ExpertStore::ssd;
}

/// Whether each server has what `load_from: host` asks of it.
void check_load_from_host(const Scenario& s, const SystemConfig& system) {
  const std::optional<MigrationConfig>& migration = system.placed->migration;
  if (!migration || migration->load_from != MigrationConfig::From::host) return;
  const ClusterProfile& cluster = s.cluster->profile;
  for (std::size_t server = 0; server < cluster.servers.size(); ++server) {
    const DeviceProfile& device = cluster.device(server);
    if (expert_store(s, system, server) == ExpertStore::host) continue;
    const std::string reason =
        device.is_discrete()
            ? "holds " + to_string(usable_host(device)) + " in its host memory, and all experts of model '" +
                  s.model.name + "' take " + to_string(stored_experts(s, system, server))
            : "has one memory (device '" + device.name +
                  "' has no GPU with memory of its own): an expert in the host's memory is where it is to be";
    throw InputError(s.name,
                     "system '" + system.name +
                         "' loads experts from host memory (migration.load_from: host), and server '" +
                         cluster.servers[server].name + "' " + reason +
                         "; expected load_from: nearest (the host memory where it can be, else the "
                         "SSD), ssd or network");
  }
}

/// What is behind a server that loads what it lacks; its cache aside.
MemoryPlan plan_home(const Scenario& s, const SystemConfig& system, std::size_t number, Bytes staging) {
  const Scenario alone = alone_scenario(s, number);
  MemoryPlan home;
  home.budget = alone.budget;
  home.staging = staging;
  if (alone.device.is_discrete())
    plan_host(alone, system, home_costs(s, system, number), 0, home);
  else if (system.page_cache)
    home.page_cache = std::max(Bytes(0), alone.device.usable_memory() - home.budget);
  return home;
}

/// Room for one expert on its way: where planes are joined, for both.
Bytes on_its_way(const Scenario& s, const SystemConfig& system) {
  return (system.compressed ? 2 : 1) * expert_bytes(s.model);
}

std::string lacking_text(const std::string& server, const ServerMemory& m, Bytes needed) {
  return "budget " + to_string(m.budget) + " is too small for server '" + server + "': it needs " +
         to_string(needed) + " before it can hold a single expert (non-expert weights " +
         to_string(m.non_expert) + ", KV cache " + to_string(m.kv_cache) + ", activations " +
         to_string(m.activations) + ", staging " + to_string(m.staging + m.loading) + ")";
}

MemoryPlan lacking_plan(const ServerMemory& m, Bytes needed) {
  MemoryPlan plan;
  plan.budget = m.budget;
  plan.non_expert = m.non_expert;
  plan.kv_cache = m.kv_cache;
  plan.activations = m.activations;
  plan.staging = m.staging + m.loading;
  plan.shortfall = needed - m.budget;
  return plan;
}

ServerMemory plan_server(const Scenario& s, const SystemConfig& system, std::size_t number,
                         const LongestRequest& longest) {
  const ClusterServer& server = s.cluster->profile.servers[number];
  const DeviceProfile& device = s.cluster->profile.device(number);
  const PlacedConfig& placed = *system.placed;
  ServerMemory m;
  m.store = expert_store(s, system, number);
  m.budget = server.budget.value_or(s.budget);
  check_budget(s.name, m.budget, device);
  m.non_expert = non_expert_bytes(s.model) + draft_bytes(s.speculation);
  m.kv_cache = s.workload.batch *
               (static_cast<double>(longest.tokens) * kv_bytes_per_token(s) + state_bytes_per_request(s));
  m.activations = step_activation_bytes(s, longest.rows);
  if (placed.migration) m.staging = on_its_way(s, system);
  if (placed.loads()) m.loading = most_experts_in_use(s) * on_its_way(s, system);
  const Bytes received = activation_bytes(s.model, longest.rows, 0);
  for (int gpu = 0; gpu < server.gpus; ++gpu) {
    const Bytes taken = gpu == 0 ? m.non_expert + m.kv_cache + m.activations + m.loading : received;
    if (taken + m.staging > m.budget)
      throw ClusterLacksMemory(s.name, lacking_text(server.name, m, taken + m.staging),
                               lacking_plan(m, taken + m.staging));
    m.experts.push_back(m.budget - taken - m.staging);
  }
  if (!placed.loads()) return m;
  m.home = plan_home(s, system, number, m.loading);
  m.home.expert_cache = placed.cache_share * m.experts.front();
  m.experts.front() -= m.home.expert_cache;
  return m;
}

/// At which an expert gets to where a server computes with it, all that it crosses one after the other.
double load_rate(const Scenario& s, const SystemConfig& system, std::size_t server, ExpertStore store) {
  using From = MigrationConfig::From;
  const ClusterProfile& cluster = s.cluster->profile;
  const TimingModel timing(cluster.device(server));
  const Bytes expert = expert_bytes(s.model);
  const From from = system.placed->migration.value_or(MigrationConfig()).load_from;
  const bool sent = from == From::network && cluster.network.topology != ClusterNetwork::Topology::platform;
  const bool from_ssd = from == From::ssd || (!sent && store == ExpertStore::ssd);
  Seconds seconds = store_load_seconds(timing, expert, from_ssd);
  if (!sent && system.placed->loads())
    seconds = Seconds(home_costs(s, system, server).supply_s(State::M, from_ssd));
  if (sent) seconds += expert / cluster.servers[server].in + cluster.network.latency;
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
    p.load_bytes_per_second = load_rate(s, system, server, memory[server].store);
  }
  return shape;
}

/// Room that is missing is refused before a policy is asked.
Placement first_placement(const Scenario& s, const PolicyChoice& policy, const PlacementShape& shape,
                          const ActivationCounts& history) {
  try {
    return place_experts(*find_placement_policy(policy.name), shape, history, policy.parameters);
  } catch (const InputError& error) {
    const std::uint64_t missing = missing_slots(shape);
    if (missing == 0) throw;
    MemoryPlan all;
    for (const PlacementServer& server : shape.servers)
      for (const double bytes : server.gpu_bytes) all.budget += Bytes(bytes);
    all.shortfall = static_cast<double>(missing) * Bytes(shape.expert_bytes);
    throw ClusterLacksMemory(s.name, error.problems().front().what, all);
  }
}

}  // namespace

ExpertCosts home_costs(const Scenario& s, const SystemConfig& system, std::size_t server) {
  return expert_costs(s.model, TimingModel(s.cluster->profile.device(server)), system);
}

ClusterPlan plan_cluster(const Scenario& s, const SystemConfig& system,
                         const std::vector<std::vector<ServedRequest>>& requests,
                         const ActivationCounts& history) {
  check_load_from_host(s, system);
  const LongestRequest longest = longest_request(s, requests);
  const ClusterProfile& cluster = s.cluster->profile;
  std::vector<ServerMemory> memory;
  for (std::size_t server = 0; server < cluster.servers.size(); ++server)
    memory.push_back(plan_server(s, system, server, longest));
  const PlacementShape shape = placement_shape(s, system, memory);
  return {memory, shape, first_placement(s, system.placed->placement, shape, history),
          batching_shape(s, longest)};
}

}  // namespace moelab
