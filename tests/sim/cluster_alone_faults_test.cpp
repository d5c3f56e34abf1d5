// Servers that each serve alone, offloading their experts, and leave their cluster and come back.
#include <catch2/catch.hpp>
#include <limits>

#include "models/input_error.hpp"
#include "sim/results/result_json.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_alone_faults_test {

using namespace moelab::test;

namespace {

/// Servers of any kind that each serve alone, with a cache, prefetches, codecs, batching and redirection, or
/// without.
Scenario random_alone(std::uint64_t seed) {
  Scenario s = random_mixed_cluster(seed);
  Random random(seed + 0x616c6f6e65);
  const ClusterProfile& profile = s.cluster->profile;
  SystemConfig system = plain_system("alone");
  bool links = false;
  for (const std::size_t device : profile.device_of) links |= profile.devices[device].is_discrete();
  constexpr std::array<const char*, 4> kCaches{"none", "lru", "fixed-experts", "moe-infinity"};
  system.cache.name = kCaches[random.below(kCaches.size())];
  system.compressed = coin(random);
  if (system.compressed) {
    system.codec = "lz";
    system.shards = from(random, 1, 3);
    system.threads = from(random, 1, 4);
    system.worker_reads = !links && coin(random);
    if (system.cache.name == "lru") system.kept_as = static_cast<State>(random.below(4));
  }
  if (coin(random)) {
    system.prefetch.name = "layer-window";
    system.prefetch_buffer = from(random, 1, 6);
  }
  if (coin(random)) system.batching = BatchingConfig{{"continuous", {}}, 4096};
  system.redirection = coin(random) ? Redirection::least_loaded : Redirection::none;
  system.detection = Seconds(1e-4 + 0.01 * random.uniform());
  s.systems = {system};
  for (ClusterServer& server : s.cluster->profile.servers) {
    server.budget.reset();
    server.gpus = 1;
  }
  s.budget = Bytes(6e5);
  return s;
}

bool fits(const Scenario& s) {
  try {
    check_scenario(s, *drawn_rows(s));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::uint64_t asked(const Scenario& s, std::size_t server) {
  return cluster_requests(s, *drawn_rows(s))[server].size();
}

/// One server whose users ask the same again and again: every token uses all experts.
Scenario one_request_again(std::uint32_t requests, double apart_s) {
  ModelShape shape;
  shape.experts = shape.top_k = 2;
  Scenario s = cluster_scenario(small_model(shape), {1}, "uniform");
  s.cluster->tasks = {{"task", {6, 6}, {4, 4}, "task"}};
  ServerLoad& load = s.cluster->loads.front();
  load.phases = {{requests, {1}}};
  for (std::uint32_t i = 0; i < requests; ++i) load.log.push_back({i * apart_s, 6, 4});
  SystemConfig system = plain_system("alone");
  system.cache.name = "lru";
  s.systems = {system};
  return s;
}

}  // namespace

TEST_CASE("alone: whatever goes wrong when, every request is answered, or lost, once") {
  std::size_t ran = 0, faults = 0, failed = 0, delayed = 0, redirected = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(1500u, 60u); ++seed) {
    Scenario s = random_alone(seed);
    Random random(seed + 1000);
    if (coin(random)) {
      s.cluster->fault_rates =
          FaultRates{Seconds(0.01 + 0.1 * random.uniform()), Seconds(0.002 + 0.03 * random.uniform())};
      for (ServerLoad& load : s.cluster->loads)  // no thousands of faults before the next request
        if (load.arrivals_per_s > 0) load.arrivals_per_s += 5;
    } else {
      double at = 0;
      for (std::uint32_t i = from(random, 1, 8); i > 0; --i) {
        at += 0.03 * random.uniform();
        s.cluster->faults.push_back({at, static_cast<FaultEvent::Kind>(random.below(3)),
                                     random.below(s.cluster->loads.size()),
                                     BytesPerSecond(kBandwidth * (0.1 + random.uniform()))});
      }
    }
    if (seed % 3 == 0) {  // drafts live on when a server comes back
      s.speculation.tokens = from(random, 1, 4);
      s.speculation.acceptance = random.uniform();
    }
    INFO("seed " << seed << ", " << s.systems.front().cache.name);
    if (!fits(s)) continue;
    ++ran;
    const RunResult r = run_cluster(s);
    std::uint64_t answered = 0;
    for (std::size_t i = 0; i < r.cluster.servers.size(); ++i) {
      const ServerResult& server = r.cluster.servers[i];
      CHECK(server.requests + server.failed == asked(s, i));
      CHECK(server.delayed <= asked(s, i));
      answered += server.requests;
      failed += server.failed;
      delayed += server.delayed;
    }
    CHECK(r.metrics.end_to_end_s.size() == answered);
    faults += r.cluster.faults.size();
    redirected += r.cluster.redirected;
    const PrefetchCounts& p = r.metrics.prefetch;
    CHECK(p.used + p.unused + p.late <= p.fetched);
    if (seed % 8 == 0) CHECK(results_json({run_cluster(s)}) == results_json({r}));
  }
  CHECK(ran > random_runs(1000u, 40u));
  CHECK(faults > random_runs(1000u, 40u));
  CHECK(failed > random_runs(100u, 2u));
  CHECK(delayed > random_runs(100u, 2u));
  CHECK(redirected > random_runs(100u, 2u));
}

TEST_CASE("alone: a fault that never happens is none, and neither is a slower network interface") {
  std::size_t ran = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(300u, 20u); ++seed) {
    Scenario s = random_alone(seed);
    INFO("seed " << seed);
    if (!fits(s)) continue;
    ++ran;
    const RunResult without = run_cluster(s);
    s.cluster->faults = {{0, FaultEvent::Kind::bandwidth, 0, BytesPerSecond(1)},
                         {1e6, FaultEvent::Kind::leaves, 0, {}}};
    const RunResult with = run_cluster(s);
    check_same_run(with, without);
    CHECK(with.cluster.redirected == without.cluster.redirected);
    CHECK(with.cluster.faults.size() == 1);
  }
  CHECK(ran > random_runs(200u, 10u));
}

TEST_CASE("alone: a server that comes back is as it was at the start") {
  const double apart = 1;  // a request takes milliseconds
  Scenario s = one_request_again(3, apart);
  const std::vector<double> warm = run_cluster(s).metrics.end_to_end_s;
  REQUIRE(warm.size() == 3);
  REQUIRE(warm[0] < 0.1 * apart);
  CHECK(warm[1] < 0.9 * warm[0]);  // its experts are there
  s.cluster->faults = {{0.4 * apart, FaultEvent::Kind::leaves, 0, {}},
                       {0.5 * apart, FaultEvent::Kind::returns, 0, {}}};
  const RunResult r = run_cluster(s);
  REQUIRE(r.metrics.end_to_end_s.size() == 3);
  CHECK(r.metrics.end_to_end_s[1] == Approx(warm[0]).epsilon(1e-9));
  CHECK(r.metrics.end_to_end_s[2] == Approx(warm[1]).epsilon(1e-9));
  REQUIRE(r.cluster.faults.size() == 2);
  CHECK(r.cluster.faults[0].uncovered == 0);  // its store has every expert
  CHECK(r.cluster.faults[0].recovered_s == r.cluster.faults[0].at_s);
}

TEST_CASE("alone: a request that is under way is lost, what comes meanwhile waits") {
  Scenario s = one_request_again(3, 1);
  const double takes = run_cluster(s).metrics.end_to_end_s.front();
  s.systems.front().detection = Seconds(0.001);
  s.cluster->faults = {{takes / 2, FaultEvent::Kind::leaves, 0, {}}, {1.5, FaultEvent::Kind::returns, 0, {}}};
  const RunResult r = run_cluster(s);
  const ServerResult& server = r.cluster.servers.front();
  CHECK(server.failed == 1);
  CHECK(server.delayed == 1);
  REQUIRE(r.metrics.end_to_end_s.size() == 2);
  CHECK(r.metrics.end_to_end_s[0] >= 0.5 + takes - 1e-9);  // came at 1, begins when the server is back
  CHECK(r.metrics.end_to_end_s[0] <= 0.5 + takes + 0.0011);
  CHECK(r.metrics.stall_s[static_cast<std::size_t>(Cause::recovery)] > 0);

  s.cluster->faults.pop_back();  // it never comes back
  const RunResult gone = run_cluster(s);
  CHECK(gone.cluster.servers.front().failed == 3);
  CHECK(gone.cluster.servers.front().experts == 0);
}

TEST_CASE("alone: requests go where servers are, once that is known") {
  ModelShape shape;
  shape.experts = 4;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  s.cluster->tasks = {{"task", {4, 4}, {2, 2}, "task"}};
  for (ServerLoad& load : s.cluster->loads) load.phases = {};
  ServerLoad& load = s.cluster->loads.front();
  load.phases = {{10, {1}}};
  for (int i = 0; i < 10; ++i) load.log.push_back({1.0 * i, 4, 2});
  SystemConfig system = plain_system("alone");
  system.redirection = Redirection::least_loaded;
  system.detection = Seconds(1);
  s.systems = {system};
  CHECK(run_cluster(s).cluster.redirected == 0);  // its own server is idle whenever one comes
  s.cluster->faults = {{2.5, FaultEvent::Kind::leaves, 0, {}}, {6.5, FaultEvent::Kind::returns, 0, {}}};
  const RunResult r = run_cluster(s);
  // Sent to it at 3, when that is not known; to the other one from 4 to 7.
  CHECK(r.cluster.redirected == 4);
  CHECK(r.cluster.servers.front().delayed == 1);
  CHECK(r.cluster.servers.front().failed == 0);
  CHECK(r.metrics.end_to_end_s.size() == 10);
}

}  // namespace moelab::cluster_alone_faults_test
