// Recorded requests on a cluster: who brings which, what of them is history, and what cannot be.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "tests/sim/cluster_cases.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::cluster_recorded_test {

using namespace moelab::test;

namespace {

/// Users of one recorded task and one that is drawn, at each server; `gpus` of each.
struct RecordedCluster {
  RecordedCluster(std::uint64_t seed, const std::vector<int>& gpus, const std::string& policy) {
    Random random(seed);
    ModelShape shape;
    shape.experts = static_cast<int>(from(random, 2, 8));
    shape.moe_layers = static_cast<int>(from(random, 1, 3));
    scenario = cluster_scenario(small_model(shape), gpus, policy);
    scenario.seed = seed;
    scenario.workload.batch = from(random, 1, 3);
    std::vector<Lengths> lengths;
    for (std::uint32_t i = from(random, 1, 9); i > 0; --i)
      lengths.push_back({from(random, 1, 6), from(random, 0, 5)});
    recorded = random_trace(random, scenario.model, lengths);
    write_routing_trace(recorded, file());
    ClusterConfig& c = *scenario.cluster;
    c.tasks.push_back({"recorded", {}, {}, "", file()});
    for (ServerLoad& load : c.loads) {
      load.phases = {{from(random, 1, 12), {0.4, 0.6}}};
      load.history = {0.25, 0.75};
      load.arrivals_per_s = coin(random) ? 50 * random.uniform() : 0;
    }
  }
  std::string file() const { return (folder / "recorded.safetensors").string(); }

  ScratchFolder folder;
  Scenario scenario;
  RoutingTrace recorded;
};

/// The experts of a request's rows, row by row and layer by layer.
std::vector<std::uint16_t> experts_of(const RoutingTrace& trace, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint16_t> all;
  for (std::uint64_t row = begin; row < end; ++row)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
      for (const std::uint16_t e : trace.experts_of(row, layer)) all.push_back(e);
  return all;
}

/// Which recorded request it is that a server's users bring; -1: one that is drawn.
int number_of(const RecordedCluster& cluster, const RoutingTrace& rows, const ServedRequest& q) {
  if (rows.domain_of(0) == 1 || q.pool_begin < rows.requests()[0].end) return -1;  // the drawn task's pool
  for (std::size_t i = 0; i < cluster.recorded.requests().size(); ++i) {
    const TraceRequest& of = cluster.recorded.requests()[i];
    if (q.pool_begin != rows.requests()[0].end + of.begin) continue;
    CHECK(q.pool_rows == of.end - of.begin);
    CHECK(q.first_row == 0);
    CHECK(q.prompt_tokens == of.decode_begin - of.begin);
    CHECK(q.output_tokens == of.end - of.decode_begin + 1);
    CHECK(experts_of(rows, q.pool_begin, q.pool_begin + q.pool_rows) ==
          experts_of(cluster.recorded, of.begin, of.end));
    return static_cast<int>(i);
  }
  FAIL("a request that was not recorded");
  return -1;
}

}  // namespace

TEST_CASE(
    "recorded requests: each server's users bring those of the first half in turn, history is the rest") {
  int drawn = 0, again = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(100u); ++seed) {
    INFO("seed " << seed);
    const RecordedCluster cluster(seed, {1, 1, 1}, "uniform");
    const RoutingTrace rows = task_rows(cluster.scenario);
    const auto count = static_cast<int>(cluster.recorded.requests().size());
    const int served = (count + 1) / 2;
    for (const bool past : {false, true})
      for (const auto& of_server : cluster_requests(cluster.scenario, rows, past)) {
        int before = -1, first = -1, brought = 0;
        for (const ServedRequest& q : of_server) {
          const int number = number_of(cluster, rows, q);
          drawn += number < 0 ? 1 : 0;
          if (number < 0) continue;
          const int least = past && count > 1 ? served : 0, end = past ? count : served;
          CHECK((number >= least && number < end));
          if (before >= 0) CHECK(number == (before + 1 < end ? before + 1 : least));
          before = number;
          if (first < 0) first = number;
          ++brought;
        }
        again += brought > served ? 1 : 0;
      }
    // Of the history: uses a request, by the rate of requests and the task's share.
    const ActivationCounts counts = history_counts(cluster.scenario, rows);
    for (std::uint32_t server = 0; server < 3; ++server) {
      const ServerLoad& load = cluster.scenario.cluster->loads[server];
      const double rate = load.arrivals_per_s > 0 ? load.arrivals_per_s : load.phases[0].requests;
      const int least = count > 1 ? served : 0;
      double tokens = 0;
      for (int i = least; i < count; ++i) {
        const TraceRequest& q = cluster.recorded.requests()[static_cast<std::size_t>(i)];
        tokens += static_cast<double>(q.end - q.begin) / (count - least);
      }
      const double drawn_tokens = (5 + 9 + 2 + 4) / 2.0 - 1;
      double uses = 0;
      for (std::uint32_t e = 0; e < rows.experts(); ++e) uses += counts.at(server, 0, e);
      CHECK(uses == Approx(rate * rows.top_k() * (0.25 * drawn_tokens + 0.75 * tokens)).epsilon(1e-9));
    }
  }
  CHECK(drawn > moelab::test::random_runs(100));
  CHECK(again > moelab::test::random_runs(10));
}

TEST_CASE("recorded requests: every one is answered with the experts that were recorded, wherever they are") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u); ++seed) {
    INFO("seed " << seed);
    RecordedCluster cluster(seed, {1, 2}, seed % 2 == 0 ? "prism" : "uniform");
    Scenario& s = cluster.scenario;
    if (seed % 3 == 0) {
      SystemConfig& system = s.systems.front();
      system.placed.reset();
      system.batching.reset();
      system.cache.name = "lru";
    }
    const RunResult r = run_cluster(s);
    double tokens = 0, requests = 0;
    for (const auto& of_server : cluster_requests(s, *drawn_rows(s)))
      for (const ServedRequest& q : of_server) {
        tokens += q.output_tokens;
        ++requests;
      }
    CHECK(static_cast<double>(r.metrics.tokens) == tokens);
    CHECK(static_cast<double>(r.metrics.end_to_end_s.size()) == requests);
    double found = 0;
    for (const ServerResult& server : r.cluster.servers)
      found += server.local_activations + server.remote_activations;
    if (seed % 3 != 0)  // alone, rows of one step that use an expert count once
      CHECK(found == rows_of(s) * s.model.moe().top_k * static_cast<double>(s.model.moe_layers().size()));
  }
}

TEST_CASE("recorded requests: what a cluster cannot serve is refused with its place") {
  const auto refusal = [](const RecordedCluster& cluster, const RoutingTrace& trace) -> std::string {
    write_routing_trace(trace, cluster.file());
    try {
      task_rows(cluster.scenario);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  RecordedCluster cluster(3, {1}, "uniform");
  Random random(1);
  const Architecture& model = cluster.scenario.model;
  CHECK(refusal(cluster, cluster.recorded) == "");
  CHECK_THAT(refusal(cluster, random_trace(random, model, {{3, 2}, {0, 4}})),
             Catch::Contains("recorded.safetensors") && Catch::Contains("request 2 has no rows of a prompt"));
  CHECK_THAT(refusal(cluster, random_trace(random, model, {{30, 30}}, true, true)),
             Catch::Contains("has no experts in MoE layer"));
  ModelShape other;
  other.experts = model.moe().experts + 1;
  other.moe_layers = static_cast<int>(model.moe_layers().size());
  CHECK_THAT(refusal(cluster, random_trace(random, small_model(other), {{3, 2}})),
             Catch::Contains("experts a layer, model 'small-model' has"));
  std::filesystem::remove(cluster.file());
  CHECK_THROWS_WITH(task_rows(cluster.scenario), Catch::Contains("recorded.safetensors"));
}

}  // namespace moelab::cluster_recorded_test
