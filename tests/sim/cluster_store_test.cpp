// Placed servers with a store behind their calls, whole or compressed, and a cache before it: equalities with
// what has no store, no network or no code, and what each of them conserves.
#include <catch2/catch.hpp>
#include <limits>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/cluster/expert_calls.hpp"
#include "sim/results/result_json.hpp"
#include "sim/serving/expert_costs.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_store_test {

using namespace moelab::test;

namespace {

/// Some cluster whose servers are all alike, of any kind, and load what they lack. `one_gpu`: each.
Scenario random_stores(std::uint64_t seed, PlacedExecution execution, bool one_gpu = false) {
  Scenario s = random_cluster(seed);
  Random random(seed + 0x73746f7265);
  const DeviceProfile device = machine_of(kMachineKinds[seed % kMachineKinds.size()]);
  const double all = static_cast<double>(s.model.moe_layers().size()) * s.model.moe().experts;
  const std::size_t servers = s.cluster->profile.servers.size();
  for (std::size_t i = 0; i < servers; ++i) {
    set_machine(s, i, device);
    if (one_gpu) s.cluster->profile.servers[i].gpus = 1;
  }
  auto& migration = placed_of(s).migration;
  if (migration) migration->load_from = MigrationConfig::From::nearest;
  const double each = placed_of(s).copies > 1 ? all : std::ceil(all / static_cast<double>(servers));
  for (std::size_t i = 0; i < servers; ++i) give_experts(s, i, each + 1);
  let_load_from_stores(s, execution, random);
  return s;
}

std::string cache_of(const Scenario& s) {
  const SystemConfig& system = s.systems.front();
  return system.cache.name + (system.compressed ? ", compressed" : "");
}

double sum_of(const RunResult& r, double ServerResult::*of) {
  double sum = 0;
  for (const ServerResult& server : r.cluster.servers) sum += server.*of;
  return sum;
}

std::uint64_t lookups(const Metrics& m) {
  std::uint64_t sum = 0;
  for (const std::uint64_t n : m.hits) sum += n;
  return sum;
}

/// What experts that were found in each state lacked, and nothing held in another place: of a system without
/// a page cache that matters.
double missing_bytes(const Scenario& s, const Metrics& m) {
  const ExpertCosts costs = home_costs(s, s.systems.front(), 0);
  const bool link = s.cluster->profile.device(0).is_discrete();
  const double e = (link ? costs.e_bytes : costs.e_stored).value() * costs.tensors;
  const double sm = costs.sm_bytes.value() * costs.tensors;
  double bytes = 0;
  for (const State state : kAllStates)
    if (state != State::F)
      bytes += static_cast<double>(m.hits[index(state)]) *
               ((has_sm(state) ? 0 : sm) + (has_e(state) || !s.systems.front().compressed ? 0 : e));
  return bytes;
}

void check_same(const RunResult& a, const RunResult& b) {
  CHECK(a.metrics.end_to_end_s == b.metrics.end_to_end_s);
  CHECK(a.metrics.token_gaps_s == b.metrics.token_gaps_s);
  CHECK(a.metrics.hits == b.metrics.hits);
  CHECK(a.metrics.bytes == b.metrics.bytes);
}

/// Every request answered or lost once; what was routed was computed somewhere.
void check_conserved(const Scenario& s, const RunResult& r) {
  std::size_t asked = 0;
  for (const auto& of_server : cluster_requests(s, *drawn_rows(s))) asked += of_server.size();
  std::size_t accounted = 0;
  for (const ServerResult& server : r.cluster.servers) accounted += server.requests + server.failed;
  CHECK(accounted == asked);
}

}  // namespace

TEST_CASE("stores: bytes are what the experts that were found lacked, and every activation is somewhere") {
  double loaded = 0, compressed = 0, partly = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(1000u, 40u); ++seed) {
    Scenario s = random_stores(seed, seed % 3 == 0 ? PlacedExecution::load : PlacedExecution::call_or_load);
    s.systems.front().page_cache = false;
    INFO("seed " << seed << ", " << cache_of(s));
    const RunResult r = run_cluster(s);
    check_conserved(s, r);
    const Metrics& m = r.metrics;
    const double all = rows_of(s) * s.model.moe().top_k * static_cast<double>(s.model.moe_layers().size());
    CHECK(sum_of(r, &ServerResult::local_activations) + sum_of(r, &ServerResult::remote_activations) == all);
    const double expected = missing_bytes(s, m);
    const double read = m.bytes[static_cast<std::size_t>(Tier::ssd)];
    const double sent = m.bytes[static_cast<std::size_t>(Tier::host)];
    CHECK((s.cluster->profile.device(0).is_discrete() ? sent : read) == Approx(expected).epsilon(1e-9));
    std::int64_t loads = 0;
    for (const ServerResult& server : r.cluster.servers) {
      loads += server.loaded_experts;
      CHECK((server.cached_experts >= 0) == (s.systems.front().cache.name != "none"));
    }
    CHECK(static_cast<std::uint64_t>(loads) == lookups(m) - m.hits[index(State::F)]);
    CHECK(nlohmann::json::parse(results_json({r})).contains("hits"));
    loaded += static_cast<double>(loads);
    compressed += s.systems.front().compressed ? static_cast<double>(loads) : 0;
    partly +=
        static_cast<double>(m.hits[index(State::C)] + m.hits[index(State::S)] + m.hits[index(State::E)]);
  }
  CHECK(loaded > random_runs(1000, 50));
  CHECK(compressed > random_runs(1000, 50));
  CHECK(partly > random_runs(100, 2));
}

TEST_CASE("stores: call or load is loading where there is no network, whatever is stored how") {
  std::uint64_t missed = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(500u, 20u); ++seed) {
    Scenario s = random_stores(seed, PlacedExecution::load);
    INFO("seed " << seed << ", " << cache_of(s));
    s.cluster->profile.network.latency = Seconds(100);
    placed_of(s).migration.reset();
    const RunResult load = run_cluster(s);
    placed_of(s).execution = PlacedExecution::call_or_load;
    check_same(run_cluster(s), load);
    missed += load.metrics.hits[index(State::M)];
  }
  CHECK(missed > random_runs(1000, 50));
}

TEST_CASE("stores: call or load is calling where the network is free and nothing is kept") {
  double remote = 0;
  for (std::uint64_t seed = 4; seed <= random_runs(1000u, 80u); seed += kMachineKinds.size()) {
    Scenario s = random_stores(seed, PlacedExecution::call_or_load, true);  // discrete
    INFO("seed " << seed << ", " << cache_of(s));
    SystemConfig& system = s.systems.front();
    with_same_room(s, [](SystemConfig& c) {
      c.cache = {"none", {}};
      c.placed->cache_share = 0;
      c.placed->migration.reset();
      c.placed->execution = PlacedExecution::call_or_load;
    });
    s.cluster->profile.network.latency = Seconds(0);
    for (ClusterServer& server : s.cluster->profile.servers)
      server.in = server.out = BytesPerSecond(std::numeric_limits<double>::infinity());
    // Hidden states cross the link in no time to speak of, planes in seconds.
    constexpr double kSoon = 1e-6, kHiddenBytes = 1200;
    for (DeviceProfile& device : s.cluster->profile.devices)
      device.gpu->own->link.to_device.value =
          Curve({{0, kSoon}, {kHiddenBytes, kSoon}, {kHiddenBytes + 1, 10}, {1e9, 20}});
    s.device = s.cluster->profile.device(0);
    const ServerMemory before = memory_of(s).front();
    if (message_bytes(s.model, 12).value() > kHiddenBytes) continue;
    const RunResult either = run_cluster(s);
    const Bytes loading = before.loading;
    system.placed->execution = PlacedExecution::call;
    system.compressed = false;
    system.schedule = {"fifo", {}};
    system.kept_as = State::F;
    for (ClusterServer& server : s.cluster->profile.servers) server.budget = *server.budget - loading;
    const RunResult call = run_cluster(s);
    CHECK(either.metrics.end_to_end_s == call.metrics.end_to_end_s);
    CHECK(either.metrics.hits[index(State::M)] == 0);
    remote += sum_of(either, &ServerResult::remote_activations);
  }
  CHECK(remote > random_runs(1000, 50));
}

// As for a machine alone (linked_planes_test.cpp): pieces of a plane take as long as the whole tensor where a
// transfer has no latency, and their order on the GPU is another.
TEST_CASE("stores: a code of ratio 1 that takes no time is no code") {
  std::uint64_t missed = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(500u, 20u); ++seed) {
    Scenario s =
        random_stores(seed, seed % 2 == 0 ? PlacedExecution::load : PlacedExecution::call_or_load, true);
    INFO("seed " << seed << ", " << cache_of(s));
    for (DeviceProfile& device : s.cluster->profile.devices) {
      device.codecs["lz"].ratio.value = 1;
      device.ssd.read.value = Curve::affine(0, 5e8);
      device.ssd.slowdown_while_decompressing.value = 1;
      device.cpu.dispatch.value = Seconds(0);
      if (device.is_discrete()) device.gpu->own->link.to_device.value = Curve::affine(0, 4e8);
      // Nor is it thought to take any where a server weighs a load against a call.
      device.codecs["lz"].decompress.emplace<Sourced<BytesPerSecond>>().value = BytesPerSecond(1e15);
      device.cpu.recover = {Curve({{0, 1e-12}, {1000, 2e-12}}), ""};
      if (device.memory.bandwidth) device.memory.bandwidth->value = BytesPerSecond(1e15);
      if (device.is_discrete()) device.gpu->own->bandwidth.value = BytesPerSecond(1e15);
    }
    s.device = s.cluster->profile.device(0);
    with_same_room(s, [](SystemConfig& c) {
      c.compressed = true;
      c.codec = "lz";
      c.shards = 1;
      c.threads = 1;
      c.schedule.name = "fifo";
      c.worker_reads = c.page_cache = false;
      c.kept_as = State::F;
      c.placed->migration.reset();
    });
    RunOptions options;
    options.free_resources = {"recover", "decompress", "gpu", "cpu"};
    const auto rows = drawn_rows(s);
    const RunResult planes = run_system(s, s.systems.front(), *rows, options);
    with_same_room(s, [](SystemConfig& c) {
      c.compressed = false;
      c.shards = 0;
    });
    const RunResult plain = run_system(s, s.systems.front(), *rows, options);
    CHECK(planes.metrics.hits == plain.metrics.hits);
    for (std::size_t t = 0; t < kTiers; ++t)
      CHECK(planes.metrics.bytes[t] == Approx(plain.metrics.bytes[t]).epsilon(1e-12));
    CHECK(planes.metrics.wall_s == Approx(plain.metrics.wall_s).epsilon(1e-9));
    missed += plain.metrics.hits[index(State::M)];
  }
  CHECK(missed > random_runs(1000, 50));
}

TEST_CASE("stores: whatever goes wrong when, every request is accounted for, twice the same way") {
  std::size_t faults = 0, failed = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(400u, 20u); ++seed) {
    Scenario s = random_stores(seed, seed % 3 == 0 ? PlacedExecution::load : PlacedExecution::call_or_load);
    INFO("seed " << seed << ", " << cache_of(s));
    Random random(seed + 1000);
    s.cluster->fault_rates =
        FaultRates{Seconds(0.02 + 0.1 * random.uniform()), Seconds(0.005 + 0.05 * random.uniform())};
    const RunResult r = run_cluster(s);
    check_conserved(s, r);
    faults += r.cluster.faults.size();
    for (const ServerResult& server : r.cluster.servers) failed += server.failed;
    // What was lost on its way may have been read in part.
    const double most = missing_bytes(s, r.metrics);
    if (!s.systems.front().page_cache)
      CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] +
                r.metrics.bytes[static_cast<std::size_t>(Tier::host)] <=
            most * (1 + 1e-9));
    if (seed % 8 == 0) CHECK(results_json({run_cluster(s)}) == results_json({r}));
  }
  CHECK(faults > random_runs(400u, 20u));
  CHECK(failed > random_runs(40u, 1u));
}

TEST_CASE("stores: a fault that never happens is none") {
  for (std::uint64_t seed = 1; seed <= random_runs(200u, 10u); ++seed) {
    Scenario s = random_stores(seed, PlacedExecution::call_or_load);
    INFO("seed " << seed << ", " << cache_of(s));
    const RunResult without = run_cluster(s);
    s.cluster->faults = {{1e6, FaultEvent::Kind::leaves, 0, {}}};
    const RunResult with = run_cluster(s);
    check_same_run(with, without);
    CHECK(with.cluster.faults.empty());
  }
}

TEST_CASE("stores: GPUs that hold a part of the experts serve all of them, if the policy fills them") {
  ModelShape shape;
  shape.experts = 8;
  for (const char* policy : {"prism", "redundance", "optimal"}) {
    Scenario s = cluster_scenario(small_model(shape), {1, 1}, policy);
    for (std::size_t i = 0; i < 2; ++i) give_experts(s, i, 8);
    let_load(s, PlacedExecution::call_or_load);
    placed_of(s).copies = 0;
    for (ClusterServer& server : s.cluster->profile.servers)
      server.budget = *server.budget - 5 * expert_bytes(s.model);  // 3 each, of 16
    const RunResult r = run_cluster(s);
    check_conserved(s, r);
    CHECK(r.cluster.servers[0].experts + r.cluster.servers[1].experts == 6);
    CHECK(r.metrics.hits[index(State::M)] > 0);
    placed_of(s).copies = 1;
    CHECK_THAT(run_cluster(s).cluster.lacking, Catch::Contains("placement.copies: 0"));
  }
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  let_load(s, PlacedExecution::load);
  placed_of(s).copies = 0;
  CHECK_THROWS_WITH(run_cluster(s), Catch::Contains("every GPU would stay empty") &&
                                        Catch::Contains("prism, redundance, optimal"));
}

TEST_CASE("stores: what cannot be is refused by its reason") {
  const auto refusal = [](auto change) -> std::string {
    Scenario s = cluster_scenario(small_model(ModelShape()), {1, 1}, "prism");
    let_load(s, PlacedExecution::call_or_load);
    change(s.systems.front());
    try {
      run_cluster(s);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal([](SystemConfig&) {}) == "");
  CHECK_THAT(refusal([](SystemConfig& c) { c.schedule.name = "cache-affinity"; }),
             Catch::Contains("schedule 'cache-affinity'") && Catch::Contains("fifo"));
  CHECK_THAT(refusal([](SystemConfig& c) {
               c.cache.name = "belady";
               c.placed->cache_share = 0.5;
             }),
             Catch::Contains("'belady'") && Catch::Contains("such as lru"));
}

}  // namespace moelab::cluster_store_test
