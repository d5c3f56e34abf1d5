#include "sim/cluster/run_cluster.hpp"

#include <algorithm>

#include "models/input_error.hpp"
#include "policies/batching/batching.hpp"
#include "policies/guard/guarded_policies.hpp"
#include "sim/cluster/placed_faults.hpp"
#include "sim/cluster/run_alone.hpp"
#include "sim/serving/expert_costs.hpp"

namespace moelab {
namespace {

void append(const std::vector<double>& from, std::vector<double>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

template <class Numbers>
void add_each(const Numbers& from, Numbers& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

void add_prefetch(const PrefetchCounts& one, PrefetchCounts& all) {
  all.fetched += one.fetched;
  all.used += one.used;
  all.late += one.late;
  all.unused += one.unused;
  all.cancelled += one.cancelled;
  all.wasted_bytes += one.wasted_bytes;
  all.used_top_score += one.used_top_score;
}

void add_routing(const RoutingCounts& one, RoutingCounts& all) {
  all.active += one.active;
  all.top_score += one.top_score;
  all.low_score += one.low_score;
  all.substituted += one.substituted;
  all.mass_moved += one.mass_moved;
  all.score_sum += one.score_sum;
  all.top_score_misses += one.top_score_misses;
  all.low_score_misses += one.low_score_misses;
}

/// Each server has numbered its own.
void number_by_arrival(std::vector<RequestTimes>& requests) {
  std::stable_sort(requests.begin(), requests.end(), [](const RequestTimes& a, const RequestTimes& b) {
    return std::pair(a.arrival_s, a.server) < std::pair(b.arrival_s, b.server);
  });
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].number = static_cast<std::uint32_t>(i);
}

/// By server: places in the pools of the cache that it has beside what is placed; empty where it has none.
std::vector<std::array<std::uint32_t, kStates>> home_pools(const Scenario& s, const SystemConfig& system,
                                                           const ClusterPlan& plan,
                                                           const RoutingTrace& trace) {
  std::vector<std::array<std::uint32_t, kStates>> pools;
  const std::optional<RankInclusion> use = past_use(s, system, trace);
  if (!use) return pools;
  for (std::size_t server = 0; server < plan.memory.size(); ++server) {
    const Bytes of_layer = plan.memory[server].home.expert_cache / trace.layers();
    pools.push_back(
        plan_pools(system, plan_input(system, home_costs(s, system, server), of_layer, *use)).capacity);
  }
  return pools;
}

/// What servers that load what they lack do so with.
void check_home_stores(const Scenario& s, const SystemConfig& system, const ClusterPlan& plan,
                       const RoutingTrace& trace) {
  check_cache_on_cluster(s, system);
  for (std::size_t server = 0; server < plan.memory.size(); ++server)
    check_expert_policies(alone_scenario(s, server), system, trace);
  home_pools(s, system, plan, trace);
}

}  // namespace

void add_metrics(const Metrics& one, std::uint32_t server, Metrics& all) {
  append(one.ttft_s, all.ttft_s);
  append(one.end_to_end_s, all.end_to_end_s);
  append(one.token_gaps_s, all.token_gaps_s);
  for (RequestTimes request : one.requests) {
    request.server = server;
    all.requests.push_back(request);
  }
  all.tokens += one.tokens;
  all.wall_s = std::max(all.wall_s, one.wall_s);
  add_each(one.hits, all.hits);
  add_each(one.decode_hits, all.decode_hits);
  add_each(one.bytes, all.bytes);
  add_each(one.stall_s, all.stall_s);
  add_each(one.decode_stall_s, all.decode_stall_s);
  add_prefetch(one.prefetch, all.prefetch);
  add_routing(one.routing, all.routing);
  all.execution.loaded += one.execution.loaded;
  all.execution.on_cpu += one.execution.on_cpu;
  all.speculation.add(one.speculation);
  all.layers.add(one.layers);
}

namespace {

void check_placed_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  const auto requests = cluster_requests(s, trace);
  const ClusterPlan plan = plan_cluster(s, system, requests, history_counts(s, trace));
  if (system.placed->loads()) check_home_stores(s, system, plan, trace);
  const PolicyChoice& batching = system.batching->policy;
  make_batching_policy(*find_batching_policy(batching.name), plan.batching, batching.parameters);
}

void run_placed_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                       const RunOptions& options, RunResult& r) {
  if (options.executor == ExecutorKind::fast &&
      s.cluster->profile.network.topology == ClusterNetwork::Topology::platform)
    throw InputError(s.name, "the network of cluster '" + s.cluster->profile.name +
                                 "' is a SimGrid platform, which only the executor simgrid resolves");
  const auto requests = cluster_requests(s, trace);
  const ActivationCounts history = history_counts(s, trace);
  const ClusterPlan plan = plan_cluster(s, system, requests, history);
  const std::unique_ptr<engine::Engine> engine = make_engine(options.executor);
  ClusterWorld world(*engine, s, system, trace, plan, history);
  if (system.placed->loads()) world.pools = home_pools(s, system, plan, trace);
  if (options.observer) world.observer = options.observer(system);

  std::uint64_t all_tokens = 0;
  for (const auto& of_server : requests)
    for (const ServedRequest& q : of_server) all_tokens += q.output_tokens;
  std::vector<std::unique_ptr<PlacedServer>> servers;
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> tokens_of(requests.size(), 0);
  for (std::uint32_t number = 0; number < requests.size(); ++number) {
    GraphObserver* observer = nullptr;
    if (world.observer != nullptr)
      observer = world.observer->of_server(s.cluster->profile.servers[number].name + "/");
    const auto progress = [&, number](std::uint64_t generated) {
      tokens += generated - tokens_of[number];
      tokens_of[number] = generated;
      if (options.progress) options.progress(system, tokens, all_tokens);
    };
    servers.push_back(std::make_unique<PlacedServer>(world, number, requests[number], observer, progress));
  }
  GlobalScheduler scheduler(world);
  PlacedFaults faulty(world, servers, scheduler);
  FaultPlayer faults(*engine, s, world, faulty);

  std::vector<engine::Process> processes;
  processes.reserve(servers.size() + 2);
  for (const auto& server : servers) processes.push_back(server->loop.serve());
  processes.push_back(scheduler.run());
  processes.push_back(faults.run());
  free_resources(options, *engine);
  for (engine::Process& process : processes) engine->spawn(process);
  engine->run();

  for (std::uint32_t number = 0; number < servers.size(); ++number) {
    add_metrics(servers[number]->state.metrics, number, r.metrics);
    r.cluster.servers.push_back(servers[number]->stage.result());
  }
  number_by_arrival(r.metrics.requests);
  r.cluster.migrations = scheduler.records();
  r.cluster.faults = faults.records();
  add_account(*engine, r);
}

}  // namespace

std::string check_cluster_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace) {
  try {
    system.placed ? check_placed_system(s, system, trace) : check_alone_system(s, system, trace);
    return "";
  } catch (const ClusterLacksMemory& error) {
    return error.problems().front().what;
  }
}

void run_cluster_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& trace,
                        const RunOptions& options, RunResult& r) {
  if (options.platform)
    throw InputError(
        s.name, "system '" + system.name + "' serves on a cluster; only single machines run on hardware");
  try {
    system.placed ? run_placed_system(s, system, trace, options, r)
                  : run_alone_system(s, system, trace, options, r);
  } catch (const ClusterLacksMemory& error) {
    r.executor = options.executor == ExecutorKind::simgrid ? "simgrid" : "fast";
    r.memory = error.memory();
    r.cluster.lacking = error.problems().front().what;
  }
}

}  // namespace moelab
