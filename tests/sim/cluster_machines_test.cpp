// Servers of every kind, alone and mixed: a discrete GPU, a GPU in the host's memory, a CPU alone, a CPU that
// plays a GPU.
#include <catch2/catch.hpp>
#include <optional>
#include <set>

#include "models/input_error.hpp"
#include "sim/cluster/run_alone.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/serving/memory_plan.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_machines_test {

using namespace moelab::test;

namespace {

/// Passes of one server whose requests come one at a time.
struct DenseSeconds {
  DenseSeconds(const Scenario& s, const TimingModel& timing) : model(s.model), times(s.model, timing) {}
  /// Attention and shared experts of all layers, and the head.
  double prompt(std::uint32_t tokens) {
    Pass pass;
    pass.prompt = true;
    pass.tokens = pass.prompt_tokens = tokens;
    pass.produces = 1;
    pass.runs = {{.prompt = true, .first = 1, .rows = tokens}};
    times.begin(pass);
    double sum = times.head().seconds;
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer)
      sum += times.dense(layer).seconds + times.shared(layer).seconds;
    return sum;
  }
  const Architecture& model;
  DenseTimes times;
};

/// One expert for one token: a kernel of the GPU, or as the CPU's curve says; handed over once.
double one_expert(const Architecture& model, const TimingModel& timing) {
  const Seconds time =
      timing.computes_on_cpu() ? timing.expert(model, model.moe(), 1) : timing.grouped_experts(model, 1, 1);
  return (time + timing.dispatch()).value();
}

/// Memory of a server's GPU, or of the server where that is one, less what is reserved.
double usable_of(const DeviceProfile& device) {
  if (device.is_discrete()) return (device.gpu->own->total.value - device.gpu->own->reserve.value).value();
  return (device.memory.total.value - device.memory.system_reserve.value).value();
}

/// One request of one token at server 1; its only expert is at server 2.
Scenario one_call(const DeviceProfile& caller, const DeviceProfile& called) {
  ModelShape shape;
  shape.moe_layers = shape.experts = shape.top_k = 1;
  shape.shared_width = 48;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  set_machine(s, 0, caller);
  set_machine(s, 1, called);
  s.cluster->tasks = {{"task", {1, 1}, {1, 1}, "task"}};
  s.cluster->loads[0].phases = {{1, {1}}};
  s.cluster->loads[1] = {};
  give_experts(s, 0, 0);
  return s;
}

/// One server with one user after the other, no systems.
Scenario lone_server(const DeviceProfile& device, ModelShape shape, std::uint32_t requests) {
  Scenario s = cluster_scenario(small_model(shape), {1}, "uniform");
  set_machine(s, 0, device);
  s.cluster->loads[0].phases = {{requests, {1}}};
  return s;
}

SystemConfig lru_system() {
  SystemConfig system = plain_system("lru");
  system.cache.name = "lru";
  return system;
}

/// The requests of server 1 as a recorded trace: each runs its rows of the pool, from its first one on.
RoutingTrace recorded(const Scenario& s, const RoutingTrace& rows) {
  RoutingTraceBuilder builder(rows.model(), "made up by a test", true, rows.layers(), rows.experts(),
                              rows.top_k(), false);
  const auto requests = cluster_requests(s, rows);
  for (const ServedRequest& q : requests.front()) {
    builder.begin_request();
    for (std::uint64_t i = 0; i + 1 < std::uint64_t{q.prompt_tokens} + q.output_tokens; ++i) {
      std::vector<std::uint16_t> ids;
      for (std::uint32_t layer = 0; layer < rows.layers(); ++layer)
        for (const std::uint16_t e : rows.experts_of(q.pool_begin + (q.first_row + i) % q.pool_rows, layer))
          ids.push_back(e);
      builder.add_token(i < q.prompt_tokens ? Phase::prefill : Phase::decode, ids, {});
    }
  }
  return builder.finish();
}

/// Any that a server alone can serve with.
SystemConfig random_alone_system(Random& random, const Architecture& model, const DeviceProfile& device) {
  SystemConfig s = random_system(random, model);
  if (device.is_discrete()) {
    s.compressed = false;
    s.shards = 0;
    s.schedule.name = "fifo";
    s.kept_as = State::F;
    s.pools = {true, false, false, false, false};
  }
  const CachePolicyEntry& cache = *find_cache_policy(s.cache.name);
  if (cache.needs_profile || cache.needs_future || cache.needs_scores || cache.needs_all_scores)
    s.cache = {coin(random) ? "lru" : "moe-infinity", {}};
  s.planning.name = "fixed";
  s.ratios = {};
  random_ratios(random, s);
  s.prefetch = {"none", {}};
  s.prefetch_buffer = 0;
  if (coin(random)) {
    s.prefetch.name = "layer-window";
    s.prefetch_buffer = from(random, 1, 6);
  }
  return s;
}

}  // namespace

TEST_CASE("machines: a call between servers of any two kinds takes its closed form") {
  for (const MachineKind from_kind : kMachineKinds)
    for (const MachineKind to_kind : kMachineKinds) {
      INFO("from " << static_cast<int>(from_kind) << " to " << static_cast<int>(to_kind));
      DeviceProfile caller = machine_of(from_kind), called = machine_of(to_kind);
      caller.cpu.dispatch.value = Seconds(3e-6);
      called.cpu.dispatch.value = Seconds(5e-6);
      const Scenario s = one_call(caller, called);
      const TimingModel here(caller), there(called);
      const Bytes hidden(2.0 * s.model.hidden);
      const auto both_ways = [&](const TimingModel& timing) {
        return timing.is_discrete() ? (timing.store(hidden) + timing.load(hidden)).value() : 0.0;
      };
      // The shared expert runs at home, beside the call, which takes longer.
      DenseSeconds dense(s, here);
      const double at_home = dense.prompt(1) - dense.times.shared(0).seconds;
      const double away = both_ways(here) + 2 * (kLatency + hidden.value() / kBandwidth) + both_ways(there) +
                          one_expert(s.model, there);
      REQUIRE(dense.times.shared(0).seconds < away);
      const RunResult r = run_cluster(s);
      REQUIRE(r.metrics.end_to_end_s.size() == 1);
      CHECK(r.metrics.end_to_end_s.front() == Approx(at_home + away).epsilon(1e-12));
      CHECK(r.cluster.servers[0].remote_calls == 1);
      CHECK(r.cluster.servers[1].busy_s == Approx(one_expert(s.model, there)).epsilon(1e-12));
    }
}

TEST_CASE("machines: a cluster of one server that serves alone is that machine, to the last digit") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(400u, 20u); ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    DeviceProfile device = machine_of(kMachineKinds[seed % kMachineKinds.size()]);
    if (coin(random)) device.cpu.sharing = {{1, 1.25, 1.5, 2.5}, ""};
    if (device.cpu.sharing && seed % 3 > 0) device.cpu.slowdown_while_reading = {1.75, ""};
    if (coin(random)) device.cpu.dispatch.value = Seconds(1e-6);
    ModelShape shape;
    shape.moe_layers = static_cast<int>(from(random, 1, 3));
    shape.experts = static_cast<int>(from(random, 2, 8));
    shape.shared_width = coin(random) ? 48 : 0;
    Scenario cluster = lone_server(device, shape, from(random, 1, 6));
    cluster.seed = seed;
    cluster.workload.batch = from(random, 1, 3);
    cluster.systems = {random_alone_system(random, cluster.model, device)};
    const SystemConfig& system = cluster.systems.front();
    INFO(system.cache.name << ", compressed " << system.compressed);
    const RoutingTrace rows = task_rows(cluster), trace = recorded(cluster, rows);
    const double room =
        static_cast<double>(from(random, 0, 4) * static_cast<std::uint32_t>(shape.moe_layers));
    cluster.budget = Bytes(bytes_before_cache(cluster, system, trace)) + room * expert_bytes(cluster.model);

    Scenario machine = cluster;
    machine.cluster.reset();
    machine.workload.trace_file = "made up";
    const Metrics one = run_system(machine, system, trace, {}).metrics;
    const Metrics many = run_system(cluster, system, rows, {}).metrics;
    CHECK(many.token_gaps_s == one.token_gaps_s);
    CHECK(many.wall_s == one.wall_s);
    CHECK(many.tokens == one.tokens);
    CHECK(many.stall_s == one.stall_s);
  }
}

namespace {

/// The same cluster's system as one whose only server places nothing, and caches in all the room that the
/// machine alone has: `placed` has what that takes for memory beside.
Scenario as_placed(const Scenario& alone, const RoutingTrace& rows) {
  Scenario placed = alone;
  SystemConfig& system = placed.systems.front();
  PlacedConfig& p = system.placed.emplace();
  p.placement.name = "prism";
  p.copies = 0;
  p.cache_share = system.cache.name == "none" ? 0 : 1;
  p.execution = PlacedExecution::load;
  system.kv = {};
  system.redirection = Redirection::none;
  Scenario machine = alone_scenario(alone, 0);
  const auto asked = cluster_requests(alone, rows);
  for (const ServedRequest& q : asked.front())
    machine.workload.log.push_back({q.arrival_s, q.prompt_tokens, q.output_tokens});
  const SystemConfig& of = alone.systems.front();
  const ExpertCosts costs = expert_costs(alone.model, TimingModel(machine.device), of);
  const MemoryPlan memory = plan_memory(machine, of, costs, recorded(alone, rows));
  REQUIRE(memory.shortfall == Bytes(0));
  const auto requests = cluster_requests(placed, rows);
  const ServerMemory ample =
      plan_cluster(placed, system, requests, history_counts(placed, rows)).memory.front();
  const Bytes room = ample.home.expert_cache + ample.experts.front();
  const Bytes wanted = system.cache.name == "none" ? Bytes(0) : memory.expert_cache;
  placed.cluster->profile.servers.front().budget = ample.budget - room + wanted;
  // What the operating system has for its page cache stays the same.
  DeviceProfile& device = placed.cluster->profile.devices[placed.cluster->profile.device_of.front()];
  if (!device.is_discrete())
    device.memory.total.value += *placed.cluster->profile.servers.front().budget - alone.budget;
  return placed;
}

/// Any that a server can do behind its calls.
SystemConfig random_store_system(Random& random, const Architecture& model, const DeviceProfile& device) {
  SystemConfig s = random_alone_system(random, model, device);
  s.prefetch = {"none", {}};
  s.prefetch_buffer = 0;
  s.fetch_whole_layer = false;
  if (device.is_discrete() && coin(random)) {
    s.compressed = true;
    s.codec = "lz";
    s.shards = from(random, 1, 3);
    s.threads = from(random, 1, 4);
    s.worker_reads = false;
    s.schedule.name = coin(random) ? "cache-affinity" : "fifo";
    if (!find_cache_policy(s.cache.name)->uses_pools) s.kept_as = static_cast<State>(random.below(4));
  }
  s.batching = BatchingConfig{{"continuous", {{"watermark", 0}}}, 4096};
  return s;
}

}  // namespace

TEST_CASE("machines: a placed server that places nothing is that machine, with its cache and its codec") {
  std::uint64_t missed = 0, compressed = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(2000u, 60u); ++seed) {
    Random random(seed);
    DeviceProfile device = machine_of(kMachineKinds[seed % kMachineKinds.size()]);
    if (coin(random)) device.cpu.sharing = {{1, 1.25, 1.5, 2.5}, ""};
    if (device.cpu.sharing && seed % 3 > 0) device.cpu.slowdown_while_reading = {1.75, ""};
    if (coin(random)) device.cpu.dispatch.value = Seconds(1e-6);
    ModelShape shape;
    shape.moe_layers = static_cast<int>(from(random, 1, 3));
    shape.experts = static_cast<int>(from(random, 2, 8));
    shape.shared_width = coin(random) ? 48 : 0;
    Scenario alone = lone_server(device, shape, from(random, 1, 6));
    alone.seed = seed;
    alone.workload.batch = from(random, 1, 3);
    if (coin(random)) alone.cluster->loads[0].arrivals_per_s = 100 * random.uniform();
    alone.systems = {random_store_system(random, alone.model, device)};
    std::uint64_t longest = alone.workload.batch;  // the most rows of a placed server's step
    const auto asked = cluster_requests(alone, *drawn_rows(alone));
    for (const ServedRequest& q : asked.front()) longest = std::max(longest, final_tokens(batch_request(q)));
    alone.systems.front().batching->max_tokens = static_cast<std::uint32_t>(longest);
    const SystemConfig& system = alone.systems.front();
    INFO("seed " << seed << ", " << system.cache.name << ", compressed " << system.compressed);
    const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(alone);
    const RoutingTrace& rows = *drawn;
    const RoutingTrace trace = recorded(alone, rows);
    const double room =
        static_cast<double>(from(random, 0, 6) * static_cast<std::uint32_t>(shape.moe_layers));
    // Beside that, more than a KV cache in blocks takes.
    alone.budget = Bytes(bytes_before_cache(alone, system, trace) + 1e5) + room * expert_bytes(alone.model);
    const Scenario placed = as_placed(alone, rows);
    const Metrics one = run_system(alone, system, rows, {}).metrics;
    const Metrics behind_calls = run_system(placed, placed.systems.front(), rows, {}).metrics;
    CHECK(behind_calls.hits == one.hits);
    CHECK(behind_calls.decode_hits == one.decode_hits);
    CHECK(behind_calls.tokens == one.tokens);
    for (std::size_t t = 0; t < kTiers; ++t)
      CHECK(behind_calls.bytes[t] == Approx(one.bytes[t]).epsilon(1e-12));
    CHECK(behind_calls.wall_s == Approx(one.wall_s).epsilon(1e-9));
    REQUIRE(behind_calls.token_gaps_s.size() == one.token_gaps_s.size());
    for (std::size_t i = 0; i < one.token_gaps_s.size(); ++i)
      CHECK(behind_calls.token_gaps_s[i] == Approx(one.token_gaps_s[i]).epsilon(1e-9));
    missed += one.hits[index(State::M)];
    compressed += system.compressed ? 1 : 0;
  }
  CHECK(missed > moelab::test::random_runs(10000, 300));
  CHECK(compressed > moelab::test::random_runs(600u, 15u));
}

// Once everything is resident, a machine runs each layer's experts one by one. So does a placed server's CPU;
// its GPU runs them in one grouped kernel, handed over once.
TEST_CASE(
    "machines: a token of a placed server takes the machine's time, less what one grouped kernel saves") {
  ModelShape shape;
  shape.experts = shape.top_k = 2;  // every token uses all of them
  shape.shared_width = 48;
  for (const MachineKind kind : kMachineKinds) {
    INFO(static_cast<int>(kind));
    DeviceProfile device = machine_of(kind);
    device.cpu.dispatch.value = Seconds(7e-7);
    Scenario s = lone_server(device, shape, 3);
    s.cluster->tasks = {{"task", {4, 8}, {6, 9}, "task"}};
    const RunResult placed = run_cluster(s);
    s.systems = {lru_system()};
    const RunResult alone = run_cluster(s);
    const TimingModel timing(device);
    const double layers = static_cast<double>(s.model.moe_layers().size());
    const double saved =
        timing.computes_on_cpu()
            ? 0
            : layers * (2 * timing.expert(s.model, s.model.moe(), 1).value() -
                        timing.grouped_experts(s.model, 2, 2).value() + timing.dispatch().value());
    REQUIRE(placed.metrics.token_gaps_s.size() == alone.metrics.token_gaps_s.size());
    REQUIRE(placed.metrics.token_gaps_s.size() >= 15);
    for (std::size_t i = 0; i < placed.metrics.token_gaps_s.size(); ++i)
      CHECK(placed.metrics.token_gaps_s[i] == Approx(alone.metrics.token_gaps_s[i] - saved).epsilon(1e-9));
    if (!timing.computes_on_cpu()) CHECK(saved > 0);
  }
}

// A copy of c seconds that begins while the CPU computes D seconds: with a factor f on two at once both are
// stretched until the copy ends, f c later, and the CPU has done c of its D by then.
TEST_CASE("machines: a CPU that plays a GPU computes slower while hidden states are copied to it") {
  DeviceProfile played = machine_of(MachineKind::played_gpu);
  constexpr double kFactor = 1.75;
  played.cpu.sharing = {{1, kFactor}, ""};
  played.gpu->own->link.to_device.value = Curve::affine(4e-4, 1e9);
  Scenario s = one_call(machine_of(MachineKind::shared_memory), played);
  s.cluster->tasks.push_back({"long", {3000, 3000}, {1, 1}, "long"});
  s.cluster->loads[0] = {{{1, {1, 0}}}, {1, 0}, 0, "", {}};
  s.cluster->loads[1] = {{{1, {0, 1}}}, {0, 1}, 0, "", {}};
  for (std::size_t i = 0; i < 2; ++i) s.cluster->profile.servers[i].budget.reset();
  give_experts(s, 0, 0);
  Recorder record;
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &record; };
  const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(s);
  const RoutingTrace& rows = *drawn;
  run_system(s, s.systems.front(), rows, options);

  const TimingModel timing(played);
  DenseSeconds dense(s, timing);
  dense.prompt(3000);
  const double alone = dense.times.dense(0).seconds;
  const double copy = timing.load(Bytes(2.0 * s.model.hidden)).value();
  std::optional<DoneOp> computed, copied;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops) {
      if (op.label.kind == OpKind::dense && op.start == 0 && op.end >= alone) computed = op;
      if (op.label.kind == OpKind::send) copied = op;
    }
  REQUIRE(computed);
  REQUIRE(copied);
  REQUIRE(copied->start + kFactor * copy < alone);
  CHECK(copied->end - copied->start == Approx(kFactor * copy).epsilon(1e-12));
  CHECK(computed->end == Approx(alone + (kFactor - 1) * copy).epsilon(1e-12));
}

TEST_CASE("machines: an expert that migrates takes the way that its server's memory has") {
  using From = MigrationConfig::From;
  for (const MachineKind kind : kMachineKinds)
    for (const From load_from : {From::nearest, From::ssd, From::network}) {
      INFO(static_cast<int>(kind) << " from " << static_cast<int>(load_from));
      ModelShape shape;
      shape.experts = 16;
      Scenario s = cluster_scenario(small_model(shape), {1, 1}, "prism");
      ClusterConfig& c = *s.cluster;
      s.workload.skew = 2;
      c.own_popularity = 1;
      c.tasks = {{"a", {20, 30}, {2, 4}, "a"}, {"b", {20, 30}, {2, 4}, "b"}};
      for (std::size_t i = 0; i < 2; ++i) {  // users' tasks were the other server's before
        const double a = i == 0 ? 1 : 0;
        c.loads[i].phases = {{60, {a, 1 - a}}};
        c.loads[i].history = {1 - a, a};
        set_machine(s, i, machine_of(kind));
        give_experts(s, i, 20);  // of 32
      }
      placed_of(s).migration = MigrationConfig{.every = Seconds(0.05), .horizon = Seconds(100)};
      placed_of(s).migration->load_from = load_from;
      Recorder record;
      RunOptions options;
      options.observer = [&](const SystemConfig&) { return &record; };
      const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(s);
      const RoutingTrace& rows = *drawn;
      check_scenario(s, rows);
      run_system(s, s.systems.front(), rows, options);

      const TimingModel timing(machine_of(kind));
      const Bytes bytes = expert_bytes(s.model);
      const double link = timing.is_discrete() ? timing.load(bytes).value() : 0;
      const double ssd = timing.ssd_read(bytes).value();
      const double sent =
          kLatency + bytes.value() / kBandwidth;  // by another server, with the network to itself
      std::size_t moved = 0;
      for (const DoneGraph& graph : record.graphs) {
        if (!graph.holds(OpKind::migrate)) continue;
        ++moved;
        double busy = 0;
        for (const DoneOp& op : graph.ops) busy += op.end - op.start;
        const double store = timing.is_discrete() && load_from != From::ssd ? link : ssd + link;
        if (load_from == From::network && busy >= (sent + link) * (1 - 1e-9))
          continue;  // it may share the network
        CHECK(busy == Approx(store).epsilon(1e-9));
        CHECK(graph.ops.size() == (store > ssd && store > link ? 2 : 1));
      }
      CHECK(moved > 5);
    }
}

TEST_CASE("machines: experts come from the SSD where the host memory does not hold them all") {
  Scenario s = cluster_scenario(small_model(ModelShape()), {1, 1}, "prism");
  const double all = 2 * 4 * expert_bytes(s.model).value();  // layers, experts
  const auto store_with = [&](double usable) {
    DeviceProfile device = machine_of(MachineKind::discrete_gpu);
    device.memory.total.value = device.memory.system_reserve.value + Bytes(usable);
    set_machine(s, 1, device);
    const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(s);
    const RoutingTrace& rows = *drawn;
    return plan_cluster(s, s.systems.front(), cluster_requests(s, rows), history_counts(s, rows))
        .memory[1]
        .store;
  };
  CHECK(store_with(all) == ExpertStore::host);
  CHECK(store_with(all - 1) == ExpertStore::ssd);
  placed_of(s).migration = MigrationConfig{.every = Seconds(1), .horizon = Seconds(1)};
  placed_of(s).migration->load_from = MigrationConfig::From::host;
  CHECK(store_with(all) == ExpertStore::host);
  CHECK_THROWS_WITH(store_with(all - 1), Catch::Contains("server 'server2'") &&
                                             Catch::Contains("host memory") &&
                                             Catch::Contains("load_from: nearest"));
}

TEST_CASE("machines: loading from host memory is refused where that is the memory that computes") {
  for (const MachineKind kind : {MachineKind::shared_memory, MachineKind::cpu_alone}) {
    Scenario s = cluster_scenario(small_model(ModelShape()), {1, 1}, "prism");
    set_machine(s, 1, machine_of(kind));
    placed_of(s).migration = MigrationConfig{.every = Seconds(1), .horizon = Seconds(1)};
    placed_of(s).migration->load_from = MigrationConfig::From::host;
    CHECK_THROWS_WITH(run_cluster(s), Catch::Contains("server 'server2' has one memory") &&
                                          Catch::Contains("migration.load_from: host") &&
                                          Catch::Contains("expected load_from: nearest"));
  }
}

TEST_CASE("machines: any mixed cluster answers every request, and every activation is somewhere") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u, 10u); ++seed) {
    INFO("seed " << seed);
    const Scenario s = random_mixed_cluster(seed);
    const RunResult r = run_cluster(s);
    double local = 0, remote = 0;
    for (std::size_t i = 0; i < s.cluster->loads.size(); ++i) {
      std::uint64_t asked = 0;
      for (const LoadPhase& phase : s.cluster->loads[i].phases) asked += phase.requests;
      const ServerResult& server = r.cluster.servers[i];
      CHECK(server.requests == asked);
      CHECK(server.expert_bytes <=
            usable_of(s.cluster->profile.device(i)) * s.cluster->profile.servers[i].gpus);
      CHECK(server.busy_s <= r.metrics.wall_s * s.cluster->profile.servers[i].gpus * (1 + 1e-9));
      local += server.local_activations;
      remote += server.remote_activations;
    }
    CHECK(local + remote ==
          rows_of(s) * s.model.moe().top_k * static_cast<double>(s.model.moe_layers().size()));
  }
}

TEST_CASE("machines: servers of one memory have no link, and one without GPU a CPU") {
  for (const MachineKind kind : kMachineKinds) {
    const RunResult r = run_cluster(lone_server(machine_of(kind), ModelShape(), 1));
    std::set<std::string> names;
    for (const ResourceUse& use : r.busy) names.insert(use.name);
    const bool own = kind == MachineKind::discrete_gpu || kind == MachineKind::played_gpu;
    CHECK(names.count("server1/link0") == (own ? 1 : 0));
    CHECK(names.count("server1/gpu0") == (kind == MachineKind::cpu_alone ? 0 : 1));
    CHECK(names.count("server1/cpu") == (kind == MachineKind::cpu_alone ? 1 : 0));
  }
}

}  // namespace moelab::cluster_machines_test
