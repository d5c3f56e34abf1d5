#include "sim/cluster/run_alone.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "models/timing.hpp"
#include "policies/cache/cache.hpp"
#include "sim/cluster/alone_faults.hpp"
#include "sim/cluster/cluster_plan.hpp"
#include "sim/cluster/cluster_requests.hpp"
#include "sim/cluster/redirector.hpp"
#include "sim/cluster/run_cluster.hpp"
#include "sim/results/statistics.hpp"
#include "sim/serving/cached_stage.hpp"
#include "sim/serving/expert_costs.hpp"
#include "sim/serving/kv_plan.hpp"
#include "sim/serving/pool_planning.hpp"
#include "sim/serving/serving_loop.hpp"

namespace moelab {
namespace {

/// All requests, each with rows of its own.
struct AllRequests {
  RoutingTrace trace;
  std::vector<Redirector::Request> arrivals;  // in order
};

void add_row(const RoutingTrace& rows, std::uint64_t row, Phase phase, std::vector<std::uint16_t>& ids,
             RoutingTraceBuilder& builder) {
  ids.clear();
  for (std::uint32_t layer = 0; layer < rows.layers(); ++layer)
    for (const std::uint16_t expert : rows.experts_of(row, layer)) ids.push_back(expert);
  builder.add_token(phase, ids, {});
}

AllRequests all_requests(const std::vector<std::vector<ServedRequest>>& requests, const RoutingTrace& rows) {
  std::vector<std::pair<const ServedRequest*, std::size_t>> ordered;
  for (std::size_t server = 0; server < requests.size(); ++server)
    for (const ServedRequest& q : requests[server]) ordered.emplace_back(&q, server);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first->arrival_s < b.first->arrival_s; });
  RoutingTraceBuilder builder(rows.model(), rows.provenance(), true, rows.layers(), rows.experts(),
                              rows.top_k(), false);
  std::uint64_t tokens = 0;
  for (const auto& [q, server] : ordered) tokens += std::uint64_t{q->prompt_tokens} + q->output_tokens - 1;
  builder.reserve(tokens);
  std::vector<std::uint16_t> ids;
  for (const auto& [q, server] : ordered) {
    builder.begin_request();
    const std::uint64_t length = std::uint64_t{q->prompt_tokens} + q->output_tokens - 1;
    for (std::uint64_t i = 0; i < length; ++i)
      add_row(rows, q->pool_begin + (q->first_row + i) % q->pool_rows,
              i < q->prompt_tokens ? Phase::prefill : Phase::decode, ids, builder);
  }
  AllRequests all{builder.finish(), {}};
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    ServedRequest request = trace_request(all.trace, i, {});
    request.arrival_s = ordered[i].first->arrival_s;
    request.priority = ordered[i].first->priority;
    all.arrivals.push_back({ordered[i].second, request});
  }
  return all;
}

AllRequests all_requests(const Scenario& s, const RoutingTrace& rows) {
  return all_requests(cluster_requests(s, rows), rows);
}

/// What a server is planned for: that all requests come to it, and any of them meet in a batch. Nothing where
/// they meet in their order: one server takes batches of those that were all there from the start.
std::vector<RequestRecord> all_logged(const Scenario& s, const SystemConfig& system, const AllRequests& all) {
  std::vector<RequestRecord> log;
  const bool at_once = all.arrivals.empty() || all.arrivals.back().asks.arrival_s == 0;
  const bool faults = s.cluster->fault_rates || !s.cluster->faults.empty();
  if (!system.batching && s.cluster->profile.servers.size() == 1 && at_once && !faults) return log;
  for (const Redirector::Request& r : all.arrivals)
    log.push_back({r.asks.arrival_s, r.asks.prompt_tokens, r.asks.output_tokens});
  return log;
}

struct AloneServer {
  Scenario scenario;
  std::unique_ptr<ExpertCosts> costs;
  MemoryPlan memory;
  Plan plan;
  std::string prefix;
  std::optional<ServerState> state;
  std::optional<CachedStage> stage;
  std::optional<ServingLoop> loop;
};

ServerResult server_result(const Scenario& s, std::size_t number, const Redirector& redirector,
                           const AloneServer& alone, const engine::Engine& engine) {
  const ClusterServer& of = s.cluster->profile.servers[number];
  ServerResult r;
  r.name = of.name;
  r.gpus = static_cast<std::uint32_t>(of.gpus);
  r.expert_bytes = alone.memory.expert_cache.value();
  const std::vector<double>& latencies = redirector.latencies(number);
  r.requests = latencies.size();
  const Summary whole = summarize(latencies);
  r.end_to_end_s = whole.mean;
  r.end_to_end_p90_s = whole.p90;
  r.ttft_s = mean(alone.state->metrics.ttft_s);
  r.failed = redirector.failed(number);
  r.delayed = redirector.delayed(number);
  r.experts = alone.stage->experts_held();
  const ServerResources& resources = alone.stage->resources();
  r.busy_s = engine.busy_seconds(resources.experts) + engine.busy_seconds(resources.dense);
  for (const std::uint64_t n : alone.state->metrics.hits) r.local_activations += static_cast<double>(n);
  return r;
}

}  // namespace

void check_cache_on_cluster(const Scenario& s, const SystemConfig& system) {
  const CachePolicyEntry& cache = *find_cache_policy(system.cache.name);
  if (cache.needs_profile || cache.needs_future || cache.needs_scores || cache.needs_all_scores)
    throw InputError(s.name, "system '" + system.name + "' keeps experts by '" + system.cache.name +
                                 "', which needs to know more of the routing than a cluster's tasks say: "
                                 "expected one that goes by uses, such as lru or moe-infinity");
}

std::optional<RankInclusion> past_use(const Scenario& s, const SystemConfig& system,
                                      const RoutingTrace& rows) {
  constexpr std::uint32_t kRequests = 64, kTokens = 64;  // of all servers; decoded by each request
  if (!find_cache_policy(system.cache.name)->uses_pools) return std::nullopt;
  Scenario past = s;
  for (TaskConfig& task : past.cluster->tasks)
    task = {task.name, {1, 1}, {kTokens + 1, kTokens + 1}, task.domain, task.trace_file};
  const auto servers = static_cast<std::uint32_t>(past.cluster->loads.size());
  for (ServerLoad& load : past.cluster->loads) {
    load.log.clear();
    load.arrivals_per_s = 0;
    if (!load.history.empty())
      load.phases = {{std::max(s.workload.batch, kRequests / servers), load.history}};
  }
  return rank_inclusion(all_requests(cluster_requests(past, rows, true), rows).trace, s.workload.batch, false,
                        drafts_of(s));
}

Scenario alone_scenario(const Scenario& s, std::size_t server) {
  const ClusterServer& of = s.cluster->profile.servers[server];
  Scenario alone = s;
  alone.cluster.reset();
  alone.name = s.name + ", " + of.name;
  alone.device = s.cluster->profile.device(server);
  if (alone.device.is_discrete()) {
    GpuMemory& memory = *alone.device.gpu->own;
    memory.total.value = memory.total.value * of.gpus;
    memory.reserve.value = memory.reserve.value * of.gpus;
  }
  alone.budget = of.budget.value_or(s.budget) * of.gpus;
  return alone;
}

namespace {

/// Throws ClusterLacksMemory.
[[noreturn]] void throw_lacking(const Scenario& s, const SystemConfig& system, std::size_t server,
                                const MemoryPlan& memory) {
  throw ClusterLacksMemory(
      s.name,
      "server '" + s.cluster->profile.servers[server].name + "': " + shortfall_text(system.name, memory),
      memory);
}

}  // namespace

void check_alone_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& rows) {
  check_cache_on_cluster(s, system);
  const AllRequests all = all_requests(s, rows);
  const std::optional<RankInclusion> use = past_use(s, system, rows);
  for (std::size_t number = 0; number < s.cluster->profile.servers.size(); ++number) {
    Scenario alone = alone_scenario(s, number);
    alone.workload.log = all_logged(s, system, all);
    alone.systems = {system};
    alone.systems.front().redirection = Redirection::none;
    check_scenario(alone, all.trace, use ? &*use : nullptr);
    const TimingModel timing(alone.device);
    const MemoryPlan memory = plan_memory(alone, system, expert_costs(s.model, timing, system), all.trace);
    if (memory.shortfall > Bytes(0)) throw_lacking(s, system, number, memory);
  }
}

void run_alone_system(const Scenario& s, const SystemConfig& system, const RoutingTrace& rows,
                      const RunOptions& options, RunResult& r) {
  const AllRequests all = all_requests(s, rows);
  const std::optional<RankInclusion> use = past_use(s, system, rows);
  if (use) r.provenance.push_back("planning statistics: requests that the servers' users brought before");
  const std::size_t count = s.cluster->profile.servers.size();
  Redirector redirector(all.arrivals, count, system.redirection);
  const std::unique_ptr<engine::Engine> engine = make_engine(options.executor);
  ServersPresent present(count);
  present.serving = count;
  std::vector<std::uint64_t> tokens(count, 0);
  std::vector<std::unique_ptr<AloneServer>> servers;
  for (std::size_t number = 0; number < count; ++number) {
    auto one = std::make_unique<AloneServer>();
    one->scenario = alone_scenario(s, number);
    one->scenario.workload.log = all_logged(s, system, all);
    const TimingModel timing(one->scenario.device);
    one->costs = std::make_unique<ExpertCosts>(expert_costs(s.model, timing, system));
    one->memory = plan_memory(one->scenario, system, *one->costs, all.trace);
    if (one->memory.shortfall > Bytes(0)) throw_lacking(s, system, number, one->memory);
    if (use)
      one->plan =
          plan_pools(system, plan_input(system, *one->costs, one->memory.expert_cache / rows.layers(), *use));
    one->prefix = s.cluster->profile.servers[number].name + "/";
    GraphObserver* observer = options.observer ? options.observer(system) : nullptr;
    if (observer != nullptr) observer = observer->of_server(one->prefix);
    ServingProgress progress;
    if (options.progress)
      progress = [&, number](std::uint64_t generated) {
        tokens[number] = generated;
        options.progress(system, std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0}),
                         all.trace.tokens());
      };
    CachedStageOptions of;
    of.prefix = one->prefix;
    of.presence = {&present, number, system.detection_time().value()};
    one->state.emplace(*engine, observer, progress);
    one->state->serve(redirector.source(number), all.trace, make_batching(one->scenario, system, one->memory),
                      drafts_of(s));  // requests are numbered over all servers
    one->stage.emplace(*one->state, one->scenario, system, all.trace, *one->costs, one->memory,
                       one->plan.capacity, of);
    one->loop.emplace(*one->state, *one->stage, one->scenario.model, one->memory.kv_block);
    servers.push_back(std::move(one));
  }
  std::vector<CachedStage*> stages;
  for (const auto& one : servers) stages.push_back(&*one->stage);
  AloneFaults faulty(*engine, present, redirector, stages, system.detection_time().value());
  FaultPlayer faults(*engine, s, present, faulty);
  std::vector<engine::Process> processes;
  for (const auto& one : servers) processes.push_back(one->loop->serve());
  if (s.cluster->fault_rates || !s.cluster->faults.empty()) processes.push_back(faults.run());
  free_resources(options, *engine);
  for (engine::Process& process : processes) engine->spawn(process);
  engine->run();

  for (std::size_t number = 0; number < count; ++number) {
    r.cluster.servers.push_back(server_result(s, number, redirector, *servers[number], *engine));
    add_metrics(servers[number]->state->metrics, static_cast<std::uint32_t>(number), r.metrics);
  }
  r.cluster.redirected = redirector.redirected();
  r.cluster.faults = faults.records();
  add_account(*engine, r);
}

}  // namespace moelab
