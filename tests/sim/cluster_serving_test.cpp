// Servers that call each other's experts, against closed forms, a single machine, a queue's formula and
// conservation.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "models/json.hpp"
#include "sim/results/timeline.hpp"
#include "sim/serving/dense_times.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/timeline_json.hpp"

namespace moelab::cluster_serving_test {

using namespace moelab::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// One request of one token at server 1, whose experts are all on each of the `others`.
Scenario one_call(std::size_t others = 1) {
  ModelShape shape;
  shape.moe_layers = 1;
  shape.experts = 1;
  shape.top_k = 1;
  Scenario s = cluster_scenario(small_model(shape), std::vector<int>(others + 1, 1), "uniform");
  s.cluster->tasks = {{"task", {1, 1}, {1, 1}, "task"}};
  s.cluster->loads[0].phases = {{1, {1}}};
  for (std::size_t i = 1; i <= others; ++i) s.cluster->loads[i] = {};
  placed_of(s).copies = static_cast<std::uint32_t>(others);
  give_experts(s, 0, 0);
  return s;
}

/// The call as the design has it: to the host, network, to the GPU, the expert, and back the same way.
double one_call_seconds(const Scenario& s) {
  const TimingModel timing(s.device);
  DenseTimes dense(s.model, timing);
  Pass pass;
  pass.prompt = true;
  pass.tokens = pass.prompt_tokens = pass.produces = 1;
  pass.runs = {{.prompt = true, .first = 1}};
  dense.begin(pass);
  const Bytes hidden(2.0 * s.model.hidden);
  const double way =
      timing.store(hidden).value() + kLatency + hidden.value() / kBandwidth + timing.load(hidden).value();
  return dense.dense(0).seconds + 2 * way + timing.grouped_experts(s.model, 1, 1).value() +
         dense.head().seconds;
}

}  // namespace

TEST_CASE("cluster: a call to another server takes its closed form") {
  const Scenario s = one_call();
  const RunResult r = run_cluster(s);
  REQUIRE(r.metrics.end_to_end_s.size() == 1);
  CHECK(r.metrics.end_to_end_s.front() == Approx(one_call_seconds(s)).epsilon(1e-12));
  CHECK(r.cluster.servers[0].remote_calls == 1);
  CHECK(r.cluster.servers[0].network_bytes == Approx(2 * 2.0 * s.model.hidden));
  CHECK(r.metrics.stall_s[static_cast<std::size_t>(Cause::network)] ==
        Approx(2 * (kLatency + 2.0 * s.model.hidden / kBandwidth)).epsilon(1e-12));
}

TEST_CASE("cluster: a runtime adds its time to each call, and to each expert when a layer's have run") {
  Scenario s = one_call();
  Runtime runtime = load_runtime("bare");
  const auto seconds = [&] {
    set_runtime(runtime, s.systems.front());
    return run_cluster(s).metrics.end_to_end_s.front();
  };
  const double without = seconds();
  runtime.call = 3e-3;
  CHECK(seconds() == Approx(without + 3e-3).epsilon(1e-12));
  runtime.expert_host = 2e-3;
  CHECK(seconds() == Approx(without + 5e-3).epsilon(1e-12));
}

TEST_CASE("cluster: of two servers that hold an expert, the one that answers sooner is called") {
  const std::size_t slow = GENERATE(1U, 2U);
  Scenario s = one_call(2);
  s.cluster->profile.servers[slow].in = s.cluster->profile.servers[slow].out = BytesPerSecond(kBandwidth / 7);
  const RunResult r = run_cluster(s);
  REQUIRE(r.cluster.servers[slow].experts == 1);
  REQUIRE(r.cluster.servers[3 - slow].experts == 1);
  REQUIRE(r.metrics.end_to_end_s.size() == 1);
  CHECK(r.metrics.end_to_end_s.front() == Approx(one_call_seconds(s)).epsilon(1e-12));
  CHECK(r.cluster.servers[slow].busy_s == 0);
  CHECK(r.cluster.servers[3 - slow].busy_s > 0);
}

TEST_CASE("cluster: one server alone takes as long as one machine with all weights on its GPU") {
  // All experts are used by every token, so that both touch the same ones whatever rows they run.
  ModelShape shape;
  shape.dense_layers = 1;
  shape.shared_width = 48;
  shape.experts = shape.top_k = 2;
  for (const std::uint32_t batch : {1U, 3U}) {
    Scenario s = cluster_scenario(small_model(shape), {1}, "uniform");
    s.workload.batch = batch;
    s.systems.front().host_per_layer = Seconds(4e-6);
    s.systems.front().host_per_pass = Seconds(7e-6);
    s.cluster->loads[0].phases = {{12, {1}}};
    s.cluster->loads[0].arrivals_per_s = 400;
    const RunResult placed = run_cluster(s);

    SmallRun alone = paged_run(small_model(shape), {"resident"});
    alone.scenario.device = s.device;
    alone.scenario.workload.batch = batch;
    alone.scenario.workload.request_log = "as the cluster's";
    const auto requests = cluster_requests(s, *drawn_rows(s));
    for (const ServedRequest& q : requests.front())
      alone.scenario.workload.log.push_back({q.arrival_s, q.prompt_tokens, q.output_tokens});
    alone.scenario.systems.front().host_per_layer = Seconds(4e-6);
    alone.scenario.systems.front().host_per_pass = Seconds(7e-6);
    Random random(1);
    alone.trace = random_trace(random, alone.scenario.model, {{0, 40}}, false);
    const Metrics one = alone.run().metrics;
    REQUIRE(one.end_to_end_s.size() == placed.metrics.end_to_end_s.size());
    for (std::size_t i = 0; i < one.end_to_end_s.size(); ++i)
      CHECK(placed.metrics.end_to_end_s[i] == Approx(one.end_to_end_s[i]).epsilon(1e-9));
  }
}

TEST_CASE("cluster: with a network that takes no time, servers are one server with all their GPUs") {
  ModelShape shape;
  shape.experts = 7;
  for (const bool per_expert : {false, true}) {
    Scenario apart = cluster_scenario(small_model(shape), {1, 1, 1}, "uniform");
    Scenario together = cluster_scenario(small_model(shape), {3}, "uniform");
    for (Scenario* s : {&apart, &together}) {
      s->cluster->profile.network.latency = Seconds(0);
      placed_of(*s).call_per_expert = per_expert;
      for (ClusterServer& server : s->cluster->profile.servers)
        server.out = server.in = BytesPerSecond(kInfinity);
    }
    apart.cluster->loads[1] = apart.cluster->loads[2] = {};
    apart.cluster->loads[0].phases = together.cluster->loads[0].phases = {{20, {1}}};
    const RunResult a = run_cluster(apart), t = run_cluster(together);
    REQUIRE(a.metrics.end_to_end_s.size() == t.metrics.end_to_end_s.size());
    for (std::size_t i = 0; i < a.metrics.end_to_end_s.size(); ++i)
      CHECK(a.metrics.end_to_end_s[i] == Approx(t.metrics.end_to_end_s[i]).epsilon(1e-9));
    CHECK(a.cluster.servers[0].remote_activations > 0);
    CHECK(t.cluster.servers[0].remote_activations == 0);
  }
}

// M/G/1, first come first served (Pollaczek and Khinchine): mean wait = rate E[S^2] / (2 (1 - rate E[S])).
TEST_CASE("cluster: a server whose users come at random waits as an M/G/1 queue does", "[long]") {
  ModelShape shape;
  Scenario s = cluster_scenario(small_model(shape), {1}, "uniform");
  s.cluster->tasks = {{"task", {1, 40}, {1, 10}, "task"}};
  constexpr std::uint32_t kRequests = 40000;
  s.cluster->loads[0].phases = {{kRequests, {1}}};
  // So rare that no request waits: what each request takes by itself. Lengths do not depend on arrivals.
  s.cluster->loads[0].arrivals_per_s = 1e-3;
  const std::vector<double> service = run_cluster(s).metrics.end_to_end_s;
  double squares = 0;
  for (const double x : service) squares += x * x / kRequests;
  const double mean_service = mean_of(service);
  for (const double load : {0.3, 0.6, 0.8}) {
    const double rate = load / mean_service;
    s.cluster->loads[0].arrivals_per_s = rate;
    const std::vector<double> whole = run_cluster(s).metrics.end_to_end_s;
    REQUIRE(whole.size() == kRequests);
    // Means of 40 batches are nearly independent: their spread gives the confidence of the whole mean.
    std::vector<double> batches(40, 0);
    for (std::size_t i = 0; i < whole.size(); ++i)
      batches[i * batches.size() / whole.size()] +=
          (whole[i] - service[i]) * static_cast<double>(batches.size()) / kRequests;
    const double wait = mean_of(batches);
    double variance = 0;
    for (const double b : batches) variance += (b - wait) * (b - wait);
    const double error =
        std::sqrt(variance / static_cast<double>(batches.size() - 1) / static_cast<double>(batches.size()));
    const double expected = rate * squares / (2 * (1 - load));
    INFO("load " << load << ", wait " << wait << " +- " << error << ", expected " << expected);
    CHECK(std::abs(wait - expected) < 4 * error);
    CHECK(error < 0.2 * expected);
  }
}

TEST_CASE("cluster: any cluster answers every request, and every activation is somewhere") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u, 10u); ++seed) {
    const Scenario s = random_cluster(seed);
    INFO("seed " << seed << ", policy " << s.systems.front().placed->placement.name);
    const RunResult r = run_cluster(s);
    double asked = 0, local = 0, remote = 0;
    for (std::size_t i = 0; i < s.cluster->loads.size(); ++i) {
      double of_server = 0;
      for (const LoadPhase& phase : s.cluster->loads[i].phases) of_server += phase.requests;
      const ServerResult& server = r.cluster.servers[i];
      CHECK(static_cast<double>(server.requests) == of_server);
      CHECK(server.failed == 0);
      asked += of_server;
      local += server.local_activations;
      remote += server.remote_activations;
      // A message for each expert of each token, there and back, where each expert is called by itself; else
      // no more than that.
      const double most = 2 * 2.0 * s.model.hidden * server.remote_activations;
      if (s.systems.front().placed->call_per_expert)
        CHECK(server.network_bytes == Approx(most));
      else
        CHECK(server.network_bytes <= most);
    }
    CHECK(static_cast<double>(r.metrics.end_to_end_s.size()) == asked);
    const double layers = static_cast<double>(s.model.moe_layers().size());
    CHECK(local + remote == rows_of(s) * s.model.moe().top_k * layers);
    double served = 0;
    for (const double stall : r.metrics.stall_s) served += stall;
    CHECK(served <= r.metrics.wall_s * static_cast<double>(s.cluster->loads.size()) * (1 + 1e-9));
    if (seed % 8 == 0) CHECK(results_json({run_cluster(s)}) == results_json({r}));
  }
}

TEST_CASE("cluster: with drafts every request is answered with as many tokens, in fewer steps") {
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u, 10u); ++seed) {
    Scenario s = random_cluster(seed);
    INFO("seed " << seed);
    const Metrics without = run_cluster(s).metrics;
    s.speculation.tokens = 2;
    s.speculation.acceptance = 0.7;
    const RunResult r = run_cluster(s);
    for (const ServerResult& server : r.cluster.servers) CHECK(server.failed == 0);
    CHECK(r.metrics.tokens == without.tokens);
    CHECK(r.metrics.end_to_end_s.size() == without.end_to_end_s.size());
    CHECK(r.metrics.token_gaps_s.size() ==
          without.token_gaps_s.size() - r.metrics.speculation.accepted);  // each would have been a step
    accepted += r.metrics.speculation.accepted;
  }
  CHECK(accepted > 0);
}

TEST_CASE("cluster: what one server's users ask does not depend on the others") {
  Scenario s = random_cluster(3), fewer = s;
  s.cluster->loads.push_back(s.cluster->loads.front());
  const auto all = cluster_requests(s, *drawn_rows(s));
  const auto some = cluster_requests(fewer, *drawn_rows(fewer));
  for (std::size_t i = 0; i < some.size(); ++i) {
    REQUIRE(some[i].size() == all[i].size());
    for (std::size_t q = 0; q < some[i].size(); ++q) {
      CHECK(some[i][q].arrival_s == all[i][q].arrival_s);
      CHECK(some[i][q].prompt_tokens == all[i][q].prompt_tokens);
      CHECK(some[i][q].output_tokens == all[i][q].output_tokens);
    }
  }
}

// With room for all experts, each server keeps the ones that its requests have used, and its GPU is busy at
// least as long as kernels alone held it up: they were on the critical path of its own requests, one at a
// time.
TEST_CASE("cluster: a server alone says what it holds and how busy its GPU was") {
  Scenario s = cluster_scenario(small_model(ModelShape()), {1, 2}, "uniform");
  SystemConfig& system = s.systems.front();
  system.placed.reset();
  if (GENERATE(true, false)) system.batching.reset();
  system.cache.name = "lru";
  s.cluster->loads[1].phases = {{2, {1}}};
  const RunResult r = run_cluster(s);
  const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(s);
  const RoutingTrace& rows = *drawn;
  const auto requests = cluster_requests(s, rows);
  REQUIRE(r.cluster.servers.size() == 2);
  double busy = 0;
  for (std::size_t server = 0; server < 2; ++server) {
    std::vector<std::uint8_t> used(std::size_t{rows.layers()} * rows.experts(), 0);
    for (const ServedRequest& q : requests[server])
      for (std::uint64_t i = 0; i + 1 < std::uint64_t{q.prompt_tokens} + q.output_tokens; ++i)
        for (std::uint32_t layer = 0; layer < rows.layers(); ++layer)
          for (const std::uint16_t e : rows.experts_of(q.pool_begin + (q.first_row + i) % q.pool_rows, layer))
            used[std::size_t{layer} * rows.experts() + e] = 1;
    CHECK(r.cluster.servers[server].experts ==
          static_cast<std::uint64_t>(std::count(used.begin(), used.end(), 1)));
    CHECK(r.cluster.servers[server].busy_s > 0);
    CHECK(r.cluster.servers[server].busy_s < 2 * r.metrics.wall_s);  // two streams
    busy += r.cluster.servers[server].busy_s;
  }
  CHECK(busy >= (r.metrics.stall_s[static_cast<std::size_t>(Cause::expert_compute)] +
                 r.metrics.stall_s[static_cast<std::size_t>(Cause::dense_compute)]) *
                    (1 - 1e-9));
}

TEST_CASE("cluster: a timeline has every operation of every server, and requests as long as their latency") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    INFO("seed " << seed);
    const Scenario s = random_cluster(seed);
    const std::shared_ptr<const RoutingTrace> drawn = drawn_rows(s);
    const RoutingTrace& rows = *drawn;
    Timeline timeline({}), part({.first_token = 3, .last_token = 4});
    Recorder record;
    const auto run = [&](GraphObserver& observer) {
      RunOptions options;
      options.observer = [&](const SystemConfig&) { return &observer; };
      return run_system(s, s.systems.front(), rows, options);
    };
    const RunResult r = run(timeline);
    run(part);
    run(record);
    std::size_t operations = 0;
    for (const DoneGraph& graph : record.graphs) operations += graph.ops.size();

    using nlohmann::json;
    const json file = timeline_json(timeline, r);
    std::multiset<std::string> all;
    double requests = 0;
    for (const json& e : file["traceEvents"]) {
      if (e["ph"] == "X" && e["cat"] == "request") requests += 1e-6 * e["dur"].get<double>();
      if (is_operation(e)) all.insert(e["name"].dump() + e["ts"].dump() + e["dur"].dump());
    }
    CHECK(all.size() == operations);
    double latency = 0;
    for (const double seconds : r.metrics.end_to_end_s) latency += seconds;
    CHECK(requests == Approx(latency).margin(4e-9 * static_cast<double>(r.metrics.end_to_end_s.size())));

    // A window keeps some of that, and less where there is more to serve than its passes.
    const json kept = timeline_json(part, r);
    std::size_t in_window = 0;
    for (const json& e : kept["traceEvents"]) {
      if (!is_operation(e)) continue;
      ++in_window;
      CHECK(all.count(e["name"].dump() + e["ts"].dump() + e["dur"].dump()) > 0);
    }
    CHECK(in_window > 0);
    if (r.metrics.tokens > 100) CHECK(in_window < operations);
  }
}

TEST_CASE("cluster: activations by time are in the bucket of their second, however often widths doubled") {
  Random random(19);
  for (int i = 0; i < 50; ++i) {
    LocalShareSeries series;
    std::vector<std::array<double, 3>> added;  // time, local, remote: whole numbers, so that sums are exact
    double time = 0;
    const double step = 0.5 + static_cast<double>(random.below(40));
    for (int k = 0; k < 200; ++k) {
      time += step * random.uniform();
      const double local = static_cast<double>(random.below(9)),
                   remote = static_cast<double>(random.below(9));
      series.add(time, local, remote);
      added.push_back({time, local, remote});
    }
    const double width = series.width_s();
    // The first power of two of seconds with which the last time is in one of the buckets.
    double expected = LocalShareSeries::kFirstWidth_s;
    while (time >= expected * LocalShareSeries::kMost) expected *= 2;
    CHECK(width == expected);
    CHECK(series.buckets().size() == static_cast<std::size_t>(time / width) + 1);
    for (std::size_t b = 0; b < series.buckets().size(); ++b) {
      double local = 0, remote = 0;
      for (const auto& [at, l, r] : added) {
        if (std::floor(at / width) != static_cast<double>(b)) continue;
        local += l;
        remote += r;
      }
      CHECK(series.buckets()[b].local == local);
      CHECK(series.buckets()[b].remote == remote);
    }
  }
}

}  // namespace moelab::cluster_serving_test
