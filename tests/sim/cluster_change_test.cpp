// Clusters that change while they serve: experts migrate, servers leave and come back, networks get slower.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "models/json.hpp"
#include "sim/results/timeline.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"
#include "tests/sim/timeline_json.hpp"

namespace moelab::cluster_change_test {

using namespace moelab::test;

namespace {

std::uint64_t asked(const Scenario& s) {
  std::uint64_t requests = 0;
  for (const ServerLoad& load : s.cluster->loads)
    for (const LoadPhase& phase : load.phases) requests += phase.requests;
  return requests;
}

std::uint64_t accounted(const RunResult& r) {
  std::uint64_t requests = 0;
  for (const ServerResult& server : r.cluster.servers) requests += server.requests + server.failed;
  return requests;
}

/// Two servers whose users' tasks were the other's before: the first placement is the wrong way round.
Scenario crossed() {
  ModelShape shape;
  shape.experts = 16;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "prism");
  s.workload.skew = 2;
  ClusterConfig& c = *s.cluster;
  c.own_popularity = 1;
  c.tasks = {{"a", {20, 30}, {2, 4}, "a"}, {"b", {20, 30}, {2, 4}, "b"}};
  for (std::size_t i = 0; i < 2; ++i) {
    c.loads[i].phases = {{60, {i == 0 ? 1.0 : 0.0, i == 0 ? 0.0 : 1.0}}};
    c.loads[i].history = {i == 0 ? 0.0 : 1.0, i == 0 ? 1.0 : 0.0};
  }
  MigrationConfig& m = placed_of(s).migration.emplace();
  m.every = Seconds(0.05);
  m.horizon = Seconds(10);
  for (std::size_t i = 0; i < 2; ++i) give_experts(s, i, 20);  // of 32
  return s;
}

double share_at_home(const RunResult& r) {
  double local = 0, remote = 0;
  for (const ServerResult& server : r.cluster.servers) {
    local += server.local_activations;
    remote += server.remote_activations;
  }
  return local / (local + remote);
}

}  // namespace

TEST_CASE("cluster: experts move to where they are used, and calls become fewer") {
  Scenario s = crossed();
  const RunResult moved = run_cluster(s);
  REQUIRE(!moved.cluster.migrations.empty());
  const MigrationRecord& first = moved.cluster.migrations.front();
  CHECK(first.adopted);
  CHECK(first.remote_after < first.remote_before);
  CHECK(first.saved_s > first.cost_s);
  CHECK(first.done_s > first.at_s);
  CHECK(accounted(moved) == asked(s));

  placed_of(s).migration->every = Seconds(1e6);  // never
  const RunResult stayed = run_cluster(s);
  CHECK(stayed.cluster.migrations.empty());
  CHECK(share_at_home(moved) > share_at_home(stayed) + 0.1);
}

// Before the first change both means are over the same calls; after it they are not.
TEST_CASE("cluster: costs since the change of placement are those since the start until it changes") {
  Scenario s = crossed();
  placed_of(s).migration->every = Seconds(0.02);
  const std::vector<MigrationRecord> start = run_cluster(s).cluster.migrations;
  placed_of(s).migration->costs = MigrationConfig::Costs::since_change;
  const std::vector<MigrationRecord> change = run_cluster(s).cluster.migrations;
  REQUIRE(std::min(start.size(), change.size()) > 1);
  REQUIRE(start.front().adopted);
  CHECK(change.front().saved_s == start.front().saved_s);
  CHECK(change[1].remote_before == start[1].remote_before);
  CHECK(change[1].saved_s != start[1].saved_s);
}

// A mean over an interval as long as the run is none: it is over when no decision is left to make.
TEST_CASE("cluster: computing that is updated after the run changes no decision") {
  Scenario s = crossed();
  const std::vector<MigrationRecord> never = run_cluster(s).cluster.migrations;
  placed_of(s).migration->computing_every = Seconds(1e6);
  const std::vector<MigrationRecord> late = run_cluster(s).cluster.migrations;
  placed_of(s).migration->computing_every = Seconds(0.01);
  const std::vector<MigrationRecord> often = run_cluster(s).cluster.migrations;
  REQUIRE(late.size() == never.size());
  for (std::size_t i = 0; i < late.size(); ++i) CHECK(late[i].saved_s == never[i].saved_s);
  CHECK(often.front().saved_s != never.front().saved_s);
}

// Eq. 4 as stated: what is saved grows with the horizon, what it costs does not.
TEST_CASE("cluster: a horizon too short to pay for the move keeps experts where they are") {
  Scenario s = crossed();
  placed_of(s).migration->horizon = Seconds(1e-9);
  const RunResult r = run_cluster(s);
  REQUIRE(!r.cluster.migrations.empty());
  for (const MigrationRecord& m : r.cluster.migrations) CHECK(!m.adopted);
}

TEST_CASE("cluster: experts that come from the disk are longer on their way than those from the host") {
  std::vector<double> seconds;
  for (const auto from : {MigrationConfig::From::host, MigrationConfig::From::ssd}) {
    Scenario s = crossed();
    placed_of(s).migration->load_from = from;
    const RunResult r = run_cluster(s);
    REQUIRE(!r.cluster.migrations.empty());
    REQUIRE(r.cluster.migrations.front().done_s > 0);
    seconds.push_back(r.cluster.migrations.front().done_s - r.cluster.migrations.front().at_s);
  }
  CHECK(seconds[1] > seconds[0]);
}

TEST_CASE("cluster: a server that leaves takes its requests with it, and its experts are loaded elsewhere") {
  ModelShape shape;
  shape.experts = 8;
  Scenario s = cluster_scenario(small_model(shape), {1, 1, 1}, "random");
  for (std::size_t i = 0; i < 3; ++i) {
    s.cluster->loads[i].phases = {{40, {1}}};
    give_experts(s, i, 8);  // of 16: two servers hold them all
  }
  const double half = run_cluster(s).metrics.wall_s / 2;
  s.cluster->faults = {{half, FaultEvent::Kind::leaves, 1, {}}};
  const RunResult r = run_cluster(s);
  REQUIRE(r.cluster.faults.size() == 1);
  const FaultRecord& fault = r.cluster.faults.front();
  CHECK(fault.server == "server2");
  CHECK(fault.uncovered > 0);  // each expert was there once
  CHECK(fault.recovered_s > fault.at_s);
  // The last expert that was nowhere comes when all that move have come, or before.
  REQUIRE(r.cluster.migrations.size() == 1);
  CHECK(fault.recovered_s <= r.cluster.migrations.front().done_s);
  CHECK(r.cluster.servers[1].experts == 0);
  CHECK(r.cluster.servers[1].failed > 0);  // it never comes back
  CHECK(r.cluster.servers[0].failed == 0);
  CHECK(r.cluster.servers[2].failed == 0);
  CHECK(accounted(r) == asked(s));

  // It comes back: who waits is served, and it holds experts again.
  s.cluster->faults.push_back({half + 0.1, FaultEvent::Kind::returns, 1, {}});
  const RunResult back = run_cluster(s);
  CHECK(back.cluster.servers[1].failed <= s.workload.batch);
  CHECK(back.cluster.servers[1].experts > 0);
  CHECK(accounted(back) == asked(s));
}

TEST_CASE("cluster: requests that come while their server is away are delayed, and those alone") {
  const Outage outage = outage_of_first_server();
  const Scenario& s = outage.scenario;
  REQUIRE(outage.requests.size() == 40);
  REQUIRE(outage.requests[25].arrival_s - outage.returns_s >
          1e-3);  // the server sees in time that it is back
  const RunResult r = run_cluster(s);
  CHECK(r.cluster.servers[0].delayed == 15);  // 10 to 24
  CHECK(r.cluster.servers[1].delayed == 0);
  CHECK(accounted(r) == asked(s));
}

TEST_CASE("cluster: with every expert on two servers none is lost when one leaves") {
  ModelShape shape;
  shape.experts = 8;
  Scenario s = cluster_scenario(small_model(shape), {1, 1, 1}, "prism");
  placed_of(s).copies = 2;
  for (std::size_t i = 0; i < 3; ++i) {
    s.cluster->loads[i].phases = {{40, {1}}};
    give_experts(s, i, 12);
  }
  s.cluster->faults = {{0.02, FaultEvent::Kind::leaves, 0, {}}};
  const RunResult r = run_cluster(s);
  REQUIRE(r.cluster.faults.size() == 1);
  CHECK(r.cluster.faults.front().uncovered == 0);
  CHECK(r.metrics.stall_s[static_cast<std::size_t>(Cause::recovery)] < 0.1);
  CHECK(accounted(r) == asked(s));
}

TEST_CASE("cluster: servers that are left cannot hold the model: requests fail, and the run ends") {
  ModelShape shape;
  shape.experts = 8;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "random");
  for (std::size_t i = 0; i < 2; ++i) {
    s.cluster->loads[i].phases = {{40, {1}}};
    give_experts(s, i, 8);  // of 16: both are needed
  }
  s.cluster->faults = {{0.02, FaultEvent::Kind::leaves, 1, {}}};
  const RunResult r = run_cluster(s);
  CHECK(r.cluster.servers[0].failed > 0);
  CHECK(r.cluster.faults.front().recovered_s < 0);
  CHECK(accounted(r) == asked(s));
}

TEST_CASE("cluster: a slower network interface makes calls slower from then on") {
  ModelShape shape;
  shape.experts = 8;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  for (ServerLoad& load : s.cluster->loads) load.phases = {{20, {1}}};
  const double before = run_cluster(s).metrics.wall_s;
  s.cluster->faults = {{before / 2, FaultEvent::Kind::bandwidth, 0, BytesPerSecond(kBandwidth / 20)}};
  const RunResult r = run_cluster(s);
  CHECK(r.metrics.wall_s > 1.2 * before);
  CHECK(accounted(r) == asked(s));
}

/// Name, begin and duration in nanoseconds; a mark's duration is -1.
using Shown = std::multiset<std::tuple<std::string, std::int64_t, std::int64_t>>;

std::int64_t nanoseconds(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

/// What a timeline of a whole run is to show of faults and migrations, by the result: what happened while
/// operations ran, [begin, end]; what has no end ends with them.
Shown expected_events(const ClusterResult& cluster, std::int64_t begin, std::int64_t end) {
  Shown all;
  const auto rounded = [](double seconds) { return std::llround(seconds * 1e9); };
  const auto slice = [&](const char* name, double from, double to) {
    const std::int64_t first = std::max<std::int64_t>(rounded(from), begin);
    const std::int64_t last = to < 0 ? end : std::min<std::int64_t>(rounded(to), end);
    if (first < last) all.insert({name, first, last - first});
  };
  for (const FaultRecord& fault : cluster.faults) {
    const std::int64_t at = rounded(fault.at_s);
    if (at >= begin && at <= end) all.insert({fault.server + " " + fault.event, at, -1});
    if (fault.uncovered > 0) slice("experts nowhere", fault.at_s, fault.recovered_s);
  }
  for (const MigrationRecord& m : cluster.migrations)
    if (m.adopted) slice(m.recovery ? "recovery" : "migration", m.at_s, m.done_s);
  return all;
}

/// Returns how many events of faults and migrations there were.
std::size_t check_events(const nlohmann::json& file, const ClusterResult& cluster) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;  // of operations
  Shown shown;
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
  for (const nlohmann::json& e : file["traceEvents"]) {
    if (e["ph"] == "i") shown.insert({e["name"].get<std::string>(), nanoseconds(e["ts"]), -1});
    if (e["ph"] != "X" || e["cat"] == "pass" || e["cat"] == "layer" || e["cat"] == "legend") continue;
    const std::int64_t from = nanoseconds(e["ts"]), lasts = nanoseconds(e["dur"]);
    tracks[e["tid"].get<std::int64_t>()].emplace_back(from, from + lasts);
    if (e["cat"] == "fault" || e["cat"] == "migration") {
      shown.insert({e["name"].get<std::string>(), from, lasts});
    } else if (e["cat"] != "request") {
      begin = std::min(begin, from);
      end = std::max(end, from + lasts);
    }
  }
  CHECK(shown == expected_events(cluster, begin, end));
  for (auto& [track, slices] : tracks) {
    std::ranges::sort(slices);
    for (std::size_t i = 1; i < slices.size(); ++i) REQUIRE(slices[i - 1].second <= slices[i].first);
  }
  return shown.size();
}

TEST_CASE("cluster: whatever goes wrong when, every request is accounted for, twice the same way") {
  std::size_t events = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u, 10u); ++seed) {
    Scenario s = random_cluster(seed);
    INFO("seed " << seed << ", policy " << s.systems.front().placed->placement.name);
    Random random(seed + 1000);
    if (coin(random)) {
      s.cluster->fault_rates =
          FaultRates{Seconds(0.02 + 0.1 * random.uniform()), Seconds(0.005 + 0.05 * random.uniform())};
    } else {
      double at = 0;
      for (std::uint32_t i = from(random, 1, 8); i > 0; --i) {
        at += 0.03 * random.uniform();
        s.cluster->faults.push_back({at, static_cast<FaultEvent::Kind>(random.below(3)),
                                     random.below(s.cluster->loads.size()),
                                     BytesPerSecond(kBandwidth * (0.1 + random.uniform()))});
      }
    }
    Timeline timeline({});
    RunOptions options;
    options.observer = [&](const SystemConfig&) { return &timeline; };
    const RunResult r = run_system(s, s.systems.front(), *drawn_rows(s), options);
    events += check_events(timeline_json(timeline, r), r.cluster);
    CHECK(accounted(r) == asked(s));
    for (const FaultRecord& fault : r.cluster.faults)
      if (fault.recovered_s >= 0) CHECK(fault.recovered_s >= fault.at_s);
    if (seed % 8 == 0) CHECK(results_json({run_cluster(s)}) == results_json({r}));
  }
  CHECK(events > moelab::test::random_runs(200u, 10u));
}

// What would decide, or fail, for ever ends with what to change.
TEST_CASE("cluster: decisions and faults without end are refused while running") {
  Scenario decides = crossed();
  placed_of(decides).migration->every = Seconds(1e-9);
  CHECK_THROWS_WITH(run_cluster(decides), Catch::Matchers::Contains("migration.every"));

  Scenario fails = crossed();
  fails.cluster->fault_rates = FaultRates{Seconds(1e-9), Seconds(1e-9)};
  CHECK_THROWS_WITH(run_cluster(fails), Catch::Matchers::Contains("leaves_every"));
}

}  // namespace moelab::cluster_change_test
