// Small clusters of servers with users.
#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/placement/placement.hpp"
#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/cluster_requests.hpp"
#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::test {

inline constexpr double kBandwidth = 4e6, kLatency = 3e-5;  // of the small clusters' network

/// So many GPUs on each server; users of one task at each of them; a system that places by `policy`. Every
/// GPU has room for all experts until give_experts() says otherwise.
inline Scenario cluster_scenario(const Architecture& model, const std::vector<int>& gpus,
                                 const std::string& policy) {
  Scenario s;
  s.name = "cluster";
  s.model = model;
  s.budget = Bytes(9e8);
  ClusterConfig& c = s.cluster.emplace();
  c.profile.name = c.profile.title = "small-cluster";
  c.profile.devices = {small_discrete_device()};
  c.profile.network.latency = Seconds(kLatency);
  s.device = c.profile.devices.front();
  c.tasks = {{"task", {5, 9}, {2, 4}, "task"}};
  c.own_popularity = 0.7;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    ClusterServer& server = c.profile.servers.emplace_back();
    server.name = "server" + std::to_string(i + 1);
    server.gpus = gpus[i];
    server.out = server.in = BytesPerSecond(kBandwidth);
    c.profile.device_of.push_back(0);
    ServerLoad& load = c.loads.emplace_back();
    load.phases = {{4, {1}}};
    load.history = {1};
  }
  s.workload.skew = 1;
  s.workload.reuse = 0.2;
  s.workload.gate_decay = 0.24;
  SystemConfig& system = s.systems.emplace_back();
  system.name = system.title = "placed";
  system.placed.emplace().placement.name = policy;
  system.detection = Seconds(0.01);
  system.batching.emplace();
  return s;
}

inline PlacedConfig& placed_of(Scenario& s) {
  return *s.systems.front().placed;
}

/// Servers load what they lack as `execution` says, and have room for that beside what they had room for.
inline void let_load(Scenario& s, PlacedExecution execution) {
  placed_of(s).execution = execution;
  const double in_use = std::min<double>(s.model.moe().experts, 1.0 * s.model.moe().top_k * s.workload.batch);
  for (ClusterServer& server : s.cluster->profile.servers)
    server.budget = server.budget.value_or(s.budget) + in_use * expert_bytes(s.model);
}

/// A budget with which each GPU of a server has room for so many experts, and half a one.
inline void give_experts(Scenario& s, std::size_t server, double experts, const RoutingTrace& rows) {
  Scenario ample = s;
  for (ClusterServer& any : ample.cluster->profile.servers) any.budget = Bytes(9e8);
  const ServerMemory m =
      plan_cluster(ample, ample.systems.front(), cluster_requests(ample, rows), history_counts(ample, rows))
          .memory[server];
  s.cluster->profile.servers[server].budget =
      m.budget - m.experts.front() + (experts + 0.5) * expert_bytes(s.model);
}

/// task_rows(), which takes far longer than a small cluster's run, drawn once while scenarios that follow
/// each other differ in nothing that it is drawn from.
inline std::shared_ptr<const RoutingTrace> drawn_rows(const Scenario& s) {
  struct From {
    Architecture model;
    std::uint64_t seed;
    std::vector<double> law;
    std::vector<std::string> tasks;
    bool operator==(const From&) const = default;
  };
  static std::optional<From> before;
  static std::shared_ptr<const RoutingTrace> rows;
  const ClusterConfig& c = *s.cluster;
  const WorkloadConfig& w = s.workload;
  From from{s.model, s.seed, {w.skew, w.reuse, w.gate_decay, c.own_popularity}, {}};
  bool recorded = !c.counts_file.empty();
  for (const TaskConfig& task : c.tasks) {
    from.tasks.push_back(task.name);
    recorded |= !task.trace_file.empty();
  }
  if (!recorded && before == from) return rows;
  before.reset();
  rows = std::make_shared<const RoutingTrace>(task_rows(s));
  if (!recorded) before = std::move(from);
  return rows;
}

/// The first of two servers leaves between its requests 9 and 10 and is back between 24 and 25.
struct Outage {
  Scenario scenario;
  std::vector<ServedRequest> requests;  // of that server
  double leaves_s = 0, returns_s = 0;
};
inline Outage outage_of_first_server() {
  ModelShape shape;
  shape.experts = 4;
  Outage o{cluster_scenario(small_model(shape), {1, 1}, "uniform"), {}};
  Scenario& s = o.scenario;
  s.systems.front().detection = Seconds(1e-4);
  s.cluster->loads[0].phases = {{40, {1}}};
  s.cluster->loads[0].arrivals_per_s = 20;
  o.requests = cluster_requests(s, *drawn_rows(s)).front();
  o.leaves_s = (o.requests[9].arrival_s + o.requests[10].arrival_s) / 2;
  o.returns_s = (o.requests[24].arrival_s + o.requests[25].arrival_s) / 2;
  s.cluster->faults = {{o.leaves_s, FaultEvent::Kind::leaves, 0, {}},
                       {o.returns_s, FaultEvent::Kind::returns, 0, {}}};
  return o;
}

inline void give_experts(Scenario& s, std::size_t server, double experts) {
  give_experts(s, server, experts, *drawn_rows(s));
}

/// What the servers of the scenario's first system have.
inline std::vector<ServerMemory> memory_of(const Scenario& s) {
  const std::shared_ptr<const RoutingTrace> rows = drawn_rows(s);
  return plan_cluster(s, s.systems.front(), cluster_requests(s, *rows), history_counts(s, *rows)).memory;
}

/// The same with `change` made to the system, and budgets in which the first GPUs have as much room for
/// placed experts as before.
template <class Change>
void with_same_room(Scenario& s, Change change) {
  const std::vector<ServerMemory> before = memory_of(s);
  change(s.systems.front());
  Scenario ample = s;
  for (ClusterServer& server : ample.cluster->profile.servers) server.budget = Bytes(9e8);
  const std::vector<ServerMemory> after = memory_of(ample);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Bytes room = after[i].experts.front() + after[i].home.expert_cache;
    s.cluster->profile.servers[i].budget =
        after[i].budget - room +
        before[i].experts.front() * (1 + 1e-9) * (1 / (1 - placed_of(s).cache_share));
  }
}

/// Servers load what they lack, as `execution` says, from stores that are compressed or not, past caches that
/// keep what came in any form, or past none.
inline void let_load_from_stores(Scenario& s, PlacedExecution execution, Random& random) {
  const ClusterProfile& profile = s.cluster->profile;
  const bool links = std::any_of(profile.device_of.begin(), profile.device_of.end(),
                                 [&](std::size_t d) { return profile.devices[d].is_discrete(); });
  with_same_room(s, [&](SystemConfig& system) {
    system.placed->execution = execution;
    system.page_cache = coin(random);
    system.compressed = coin(random);
    if (system.compressed) {
      constexpr std::array<const char*, 3> kSchedules{"fifo", "cache-affinity", "longest-first"};
      system.codec = "lz";
      system.shards = from(random, 1, 3);
      system.threads = from(random, 1, 4);
      system.worker_reads = !links && coin(random);
      system.schedule.name = kSchedules[random.below(kSchedules.size())];
    }
    constexpr std::array<const char*, 4> kCaches{"none", "lru", "lfu", "moe-infinity"};
    system.cache.name = kCaches[random.below(kCaches.size())];
    if (system.compressed) system.kept_as = static_cast<State>(random.below(4));
    if (system.cache.name != "none") system.placed->cache_share = 0.1 + 0.5 * random.uniform();
  });
}

inline RunResult run_cluster(const Scenario& s, ExecutorKind executor = ExecutorKind::fast) {
  const std::shared_ptr<const RoutingTrace> rows = drawn_rows(s);
  check_scenario(s, *rows);
  RunOptions options;
  options.executor = executor;
  return run_system(s, s.systems.front(), *rows, options);
}

/// Tokens that run through the layers for all requests: prompt and output but the last.
inline double rows_of(const Scenario& s) {
  double rows = 0;
  for (const auto& of_server : cluster_requests(s, *drawn_rows(s)))
    for (const ServedRequest& q : of_server) rows += q.prompt_tokens + q.output_tokens - 1.0;
  return rows;
}

/// The same times, to rounding, and the same decisions.
inline void check_same_run(const RunResult& a, const RunResult& b) {
  const auto close = [](const std::vector<double>& x, const std::vector<double>& y) {
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(x[i] == Approx(y[i]).epsilon(1e-9));
  };
  close(a.metrics.end_to_end_s, b.metrics.end_to_end_s);
  close(a.metrics.token_gaps_s, b.metrics.token_gaps_s);
  CHECK(a.metrics.wall_s == Approx(b.metrics.wall_s).epsilon(1e-9));
  CHECK(a.metrics.hits == b.metrics.hits);
  CHECK(a.metrics.bytes == b.metrics.bytes);
}

/// Any cluster that can hold its model: 1 to 5 servers of 1 to 3 GPUs, skewed or even users, any policy that
/// knows clusters of any size.
inline Scenario random_cluster(std::uint64_t seed) {
  Random random(seed);
  ModelShape shape;
  shape.moe_layers = static_cast<int>(from(random, 1, 3));
  shape.dense_layers = static_cast<int>(from(random, 0, 1));
  shape.experts = static_cast<int>(from(random, 2, 9));
  shape.top_k = static_cast<int>(from(random, 1, 2));
  shape.shared_width = coin(random) ? 48 : 0;
  std::vector<int> gpus(from(random, 1, 5));
  for (int& n : gpus) n = static_cast<int>(from(random, 1, 3));
  static const std::vector<std::string> kPolicies = {"prism",    "uniform", "redundance",
                                                     "smartmoe", "eplb",    "random"};
  const std::uint64_t drawn = random.below(kPolicies.size());
  // Of a few clusters all policies have some.
  const std::string& policy = kPolicies[kFewerRuns ? seed % kPolicies.size() : drawn];
  Scenario s = cluster_scenario(small_model(shape), gpus, policy);
  s.seed = seed;
  s.workload.batch = from(random, 1, 3);
  ClusterConfig& c = *s.cluster;
  c.tasks.push_back({"other", {1, 12}, {1, 6}, "other"});
  c.own_popularity = random.uniform();
  s.workload.skew = 2 * random.uniform();
  PlacedConfig& placed = placed_of(s);
  placed.call_per_expert = coin(random);
  placed.copies = gpus.size() > 1 && coin(random) ? 2 : 1;
  if (coin(random)) {
    placed.migration.emplace();
    placed.migration->every = placed.migration->horizon = Seconds(0.002 + 0.02 * random.uniform());
    placed.migration->statistics = static_cast<MigrationConfig::Statistics>(random.below(3));
    placed.migration->window = Seconds(0.02);
    placed.migration->load_from = static_cast<MigrationConfig::From>(random.below(3));
    if (placed.migration->load_from == MigrationConfig::From::host) {
      placed.migration->costs = MigrationConfig::Costs::since_change;
      placed.migration->computing_every = Seconds(0.003);
    }
  }
  if (coin(random)) s.systems.front().host_per_layer = Seconds(1e-5 * random.uniform());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const double share = random.uniform();
    c.loads[i].phases = {{from(random, 1, 5), {share, 1 - share}}};
    if (coin(random)) c.loads[i].phases.push_back({from(random, 1, 5), {1 - share, share}});
    c.loads[i].history = {1 - share, share};
    c.loads[i].arrivals_per_s = coin(random) ? 100 * random.uniform() : 0;
    if (gpus.size() > 1 && random.below(6) == 0) c.loads[i] = {};
  }
  if (c.loads.front().phases.empty()) c.loads.front() = {{{2, {1, 0}}}, {1, 0}, 0, "", {}};
  // Just enough for all copies, or more. Each server has room for some; all together for what there must be.
  const double all = 1.0 * shape.moe_layers * shape.experts;
  double gpus_in_all = 0;
  for (const int n : gpus) gpus_in_all += n;
  const double each = std::ceil(all * placed.copies / gpus_in_all) + static_cast<double>(random.below(4));
  const std::shared_ptr<const RoutingTrace> rows = drawn_rows(s);
  for (std::size_t i = 0; i < gpus.size(); ++i)
    give_experts(s, i, placed.copies > 1 ? all / gpus[i] + 1 : each, *rows);
  return s;
}

/// What a server can be.
enum class MachineKind : std::uint8_t { discrete_gpu, shared_memory, cpu_alone, played_gpu };
inline constexpr std::array<MachineKind, 4> kMachineKinds = {
    MachineKind::discrete_gpu, MachineKind::shared_memory, MachineKind::cpu_alone, MachineKind::played_gpu};

inline DeviceProfile machine_of(MachineKind kind) {
  const bool own = kind == MachineKind::discrete_gpu || kind == MachineKind::played_gpu;
  DeviceProfile d = own ? small_discrete_device() : small_device();
  if (kind == MachineKind::cpu_alone || kind == MachineKind::played_gpu) {
    d.memory.bandwidth.reset();
    d.cpu.recover = {Curve({{0, 1e-6}, {1000, 4e-6}}), ""};
    d.cpu.peak = {FlopsPerSecond(2e9), ""};
    d.cpu.bandwidth = {BytesPerSecond(5e8), ""};
    d.cpu.dense_launch = {Seconds(1e-6), ""};
    d.cpu.experts = {{32, 48, 3, {Curve({{1, 2e-5}, {4, 5e-5}}), ""}}};
  }
  if (kind == MachineKind::cpu_alone) d.gpu.reset();
  if (kind == MachineKind::played_gpu) d.gpu->stand_in = true;
  return d;
}

inline void set_machine(Scenario& s, std::size_t server, const DeviceProfile& device) {
  ClusterProfile& profile = s.cluster->profile;
  profile.device_of[server] = profile.devices.size();
  profile.devices.push_back(device);
  if (!device.is_discrete() || device.has_stand_in()) profile.servers[server].gpus = 1;
  if (server == 0) s.device = device;
}

/// random_cluster() with servers of any kind, some with a CPU whose cores slow each other down.
inline Scenario random_mixed_cluster(std::uint64_t seed) {
  Scenario s = random_cluster(seed);
  Random random(seed + 0x6d69786564);
  const std::size_t servers = s.cluster->profile.servers.size();
  for (std::size_t i = 0; i < servers; ++i) {
    DeviceProfile device = machine_of(kMachineKinds[random.below(kMachineKinds.size())]);
    if (coin(random)) device.cpu.sharing = {{1, 1.25, 1.5, 2.5}, ""};
    if (device.cpu.sharing && i > 0) device.cpu.slowdown_while_reading = {1.75, ""};
    if (coin(random)) device.cpu.dispatch.value = Seconds(1e-6);
    set_machine(s, i, device);
  }
  auto& migration = placed_of(s).migration;
  if (migration && migration->load_from == MigrationConfig::From::host)
    migration->load_from = MigrationConfig::From::nearest;
  const double all = static_cast<double>(s.model.moe_layers().size()) * s.model.moe().experts;
  const double each = placed_of(s).copies > 1 ? all : std::ceil(all / static_cast<double>(servers));
  const std::shared_ptr<const RoutingTrace> rows = drawn_rows(s);
  for (std::size_t i = 0; i < servers; ++i) give_experts(s, i, each + 1, *rows);
  return s;
}

}  // namespace moelab::test
