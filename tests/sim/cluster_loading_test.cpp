// Servers that load missing experts for a step, beside calling others for them or in place of it: against a
// simulation of its own, and against what only calls or only loads where there is nothing to choose.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "sim/serving/dense_times.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_loading_test {

using namespace moelab::test;

namespace {

/// One GPU a server, so that budgets with and without loading can leave the same room for experts.
Scenario one_gpu_each(std::uint64_t seed) {
  Scenario s = random_cluster(seed);
  ClusterProfile& profile = s.cluster->profile;
  const double all = static_cast<double>(s.model.moe_layers().size()) * s.model.moe().experts;
  const double each = std::ceil(all / static_cast<double>(profile.servers.size()));
  for (ClusterServer& server : profile.servers) server.gpus = 1;
  for (std::size_t i = 0; i < profile.servers.size(); ++i)
    give_experts(s, i, (placed_of(s).copies > 1 ? all : each) + 1);
  return s;
}

double activations(const RunResult& r, double ServerResult::*of) {
  double sum = 0;
  for (const ServerResult& server : r.cluster.servers) sum += server.*of;
  return sum;
}

std::int64_t loaded(const RunResult& r) {
  std::int64_t sum = 0;
  for (const ServerResult& server : r.cluster.servers) sum += server.loaded_experts;
  return sum;
}

/// What one server takes for its requests, one at a time, when it loads what it does not hold: written down
/// anew, step by step, without engine, graphs or calls.
class AloneInTime {
 public:
  AloneInTime(const Scenario& s, const RoutingTrace& rows, const ClusterPlan& plan, bool from_ssd)
      : s_(s), rows_(rows), plan_(plan), timing_(s.device), dense_(s.model, timing_), from_ssd_(from_ssd) {}

  double request_seconds(const ServedRequest& q) {
    double seconds = step_seconds(q, 0, q.prompt_tokens);
    for (std::uint32_t i = 1; i < q.output_tokens; ++i)
      seconds += step_seconds(q, q.prompt_tokens + i - 1, 1);
    return seconds;
  }

 private:
  double experts_seconds(double distinct, double tokens) const {
    return (timing_.grouped_experts(s_.model, distinct, tokens) + timing_.dispatch()).value();
  }

  // The GPU computes what is at home at once, and each of the others when it is there and the GPU is free.
  // Reads follow one another, and so do copies over the link, a matrix each; an expert's begin when there is
  // room for it: when the one so many loads before it has been computed.
  double layer_seconds(const std::map<std::uint16_t, double>& tokens, std::uint32_t layer, double shared,
                       bool single) const {
    const int matrices = s_.model.moe().matrices;
    const Bytes matrix = expert_bytes(s_.model) / matrices;
    const double dispatch = timing_.dispatch().value();
    const auto room = static_cast<std::size_t>(std::min(s_.model.moe().experts, s_.model.moe().top_k));
    double at_home = 0, of_these = 0, read = 0, copied = 0;
    std::vector<double> loads;  // tokens
    for (const auto& [expert, of_expert] : tokens) {
      if (plan_.placement.on_server(0, layer, expert)) {
        at_home += 1;
        of_these += of_expert;
        continue;
      }
      loads.push_back(of_expert);
    }
    double gpu = shared + (at_home > 0 ? experts_seconds(at_home, of_these) : 0);
    std::vector<double> computed;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double begin = i < room ? 0 : computed[i - room];
      read = std::max(read, begin);
      copied = std::max(copied, begin);
      for (int m = 0; m < matrices; ++m) {
        if (from_ssd_) read += timing_.ssd_read(matrix).value() + dispatch;
        copied = std::max(copied, from_ssd_ ? read : 0) + timing_.load(matrix).value() + dispatch;
      }
      gpu = std::max(gpu, copied) +
            (timing_.expert(s_.model, s_.model.moe(), loads[i], single) + timing_.dispatch()).value();
      computed.push_back(gpu);
    }
    return gpu;
  }

  double step_seconds(const ServedRequest& q, std::uint64_t first, std::uint32_t count) {
    Pass pass;
    pass.tokens = count;
    pass.produces = 1;
    pass.prompt = first < q.prompt_tokens;
    pass.prompt_tokens = pass.prompt ? count : 0;
    pass.runs = {{.prompt = pass.prompt, .first = static_cast<double>(first) + 1, .rows = count}};
    dense_.begin(pass);
    double seconds = dense_.head().seconds;
    std::uint32_t moe_layer = 0;
    for (std::size_t layer = 0; layer < s_.model.layers.size(); ++layer) {
      seconds += dense_.dense(layer).seconds;
      if (s_.model.layers[layer].feed_forward.kind != FeedForward::Kind::moe) continue;
      std::map<std::uint16_t, double> tokens;
      for (std::uint64_t i = first; i < first + count; ++i) {
        const std::uint64_t row = q.pool_begin + (q.first_row + i) % q.pool_rows;
        for (const std::uint16_t expert : rows_.experts_of(row, moe_layer)) tokens[expert] += 1;
      }
      seconds += layer_seconds(tokens, moe_layer++, dense_.shared(layer).seconds, count == 1);
    }
    return seconds;
  }

  const Scenario& s_;
  const RoutingTrace& rows_;
  const ClusterPlan& plan_;
  TimingModel timing_;
  DenseTimes dense_;
  bool from_ssd_;
};

}  // namespace

TEST_CASE("cluster: a server that loads what it lacks takes as long as a simulation of that alone") {
  std::int64_t loads = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(300u, 20u); ++seed) {
    INFO("seed " << seed);
    Scenario s = one_gpu_each(seed);
    const bool from_ssd = seed % 2 == 0;
    if (from_ssd)
      s.cluster->profile.devices.front().memory.system_reserve.value =
          s.cluster->profile.devices.front().memory.total.value;
    s.device = s.cluster->profile.devices.front();
    s.workload.batch = 1;
    s.systems.front().host_per_layer = Seconds(0);
    placed_of(s).migration.reset();
    s.cluster->loads[0].arrivals_per_s = 0;
    if (s.cluster->loads[0].phases.empty()) s.cluster->loads[0].phases = {{2, {1, 0}}};
    for (std::size_t i = 1; i < s.cluster->loads.size(); ++i) s.cluster->loads[i] = {};
    let_load(s, PlacedExecution::load);
    const RunResult r = run_cluster(s);
    const auto rows = drawn_rows(s);
    const auto requests = cluster_requests(s, *rows);
    const ClusterPlan plan = plan_cluster(s, s.systems.front(), requests, history_counts(s, *rows));
    REQUIRE((plan.memory[0].store == ExpertStore::ssd) == from_ssd);
    AloneInTime alone(s, *rows, plan, from_ssd);
    double now = 0;
    REQUIRE(r.metrics.end_to_end_s.size() == requests[0].size());
    for (std::size_t i = 0; i < requests[0].size(); ++i) {
      now += alone.request_seconds(requests[0][i]);
      CHECK(r.metrics.end_to_end_s[i] == Approx(now).epsilon(1e-9));
    }
    loads += loaded(r);
  }
  CHECK(loads > random_runs(1000, 50));
}

TEST_CASE("cluster: servers that load call no other, and read what they load") {
  std::int64_t loads = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(100u, 8u); ++seed) {
    INFO("seed " << seed);
    Scenario s = seed % 2 == 0 ? random_cluster(seed) : random_mixed_cluster(seed);
    let_load(s, PlacedExecution::load);
    const RunResult r = run_cluster(s);
    CHECK(activations(r, &ServerResult::remote_activations) == 0);
    CHECK(activations(r, &ServerResult::network_bytes) == 0);
    const double all = rows_of(s) * s.model.moe().top_k * static_cast<double>(s.model.moe_layers().size());
    CHECK(activations(r, &ServerResult::local_activations) == all);
    const double bytes = static_cast<double>(loaded(r)) * expert_bytes(s.model).value();
    const double ssd = r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)];
    const double link = r.metrics.bytes[static_cast<std::size_t>(Tier::host)];
    CHECK(std::max(ssd, link) <= bytes * (1 + 1e-12));
    CHECK(ssd + link >= bytes * (1 - 1e-12));
    loads += loaded(r);
  }
  CHECK(loads > random_runs(1000, 50));
}

TEST_CASE("cluster: call or load is loading where there is no network") {
  std::int64_t loads = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(100u, 8u); ++seed) {
    INFO("seed " << seed);
    Scenario s = seed % 2 == 0 ? random_cluster(seed) : random_mixed_cluster(seed);
    s.cluster->profile.network.latency = Seconds(100);
    placed_of(s).migration.reset();
    let_load(s, PlacedExecution::load);
    const RunResult load = run_cluster(s);
    placed_of(s).execution = PlacedExecution::call_or_load;
    const RunResult either = run_cluster(s);
    CHECK(either.metrics.end_to_end_s == load.metrics.end_to_end_s);
    CHECK(either.metrics.token_gaps_s == load.metrics.token_gaps_s);
    CHECK(loaded(either) == loaded(load));
    loads += loaded(either);
  }
  CHECK(loads > random_runs(1000, 50));
}

TEST_CASE("cluster: call or load is calling where the network is free and loads are not") {
  double remote = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(100u, 8u); ++seed) {
    INFO("seed " << seed);
    Scenario s = one_gpu_each(seed);
    placed_of(s).migration.reset();
    s.cluster->profile.network.latency = Seconds(0);
    for (ClusterServer& server : s.cluster->profile.servers)
      server.in = server.out = BytesPerSecond(std::numeric_limits<double>::infinity());
    // Hidden states cross the link in no time to speak of, an expert's matrices in seconds.
    constexpr double kSoon = 1e-6, kHiddenBytes = 2500, kMatrixBytes = 3000;
    REQUIRE(expert_bytes(s.model).value() > s.model.moe().matrices * kMatrixBytes);
    s.cluster->profile.devices.front().gpu->own->link.to_device.value =
        Curve({{0, kSoon}, {kHiddenBytes, kSoon}, {kMatrixBytes, 10}, {1e9, 20}});
    s.device = s.cluster->profile.devices.front();
    const RunResult call = run_cluster(s);
    let_load(s, PlacedExecution::call_or_load);
    const RunResult either = run_cluster(s);
    CHECK(either.metrics.end_to_end_s == call.metrics.end_to_end_s);
    CHECK(loaded(either) == 0);
    CHECK(loaded(call) < 0);  // it does not say that it loaded none
    remote += activations(either, &ServerResult::remote_activations);
  }
  CHECK(remote > random_runs(1000, 100));
}

TEST_CASE("cluster: an expert that no server holds any more is loaded, and requests are answered") {
  ModelShape shape;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  const double all = static_cast<double>(s.model.moe_layers().size()) * s.model.moe().experts;
  for (std::size_t i = 0; i < 2; ++i) give_experts(s, i, std::ceil(all / 2));
  s.cluster->loads[1] = {};
  s.cluster->faults = {{.at_s = 0, .kind = FaultEvent::Kind::leaves, .server = 1}};
  const RunResult without = run_cluster(s);
  CHECK(without.cluster.servers[0].requests == 0);
  let_load(s, PlacedExecution::call_or_load);
  const RunResult with = run_cluster(s);
  CHECK(with.cluster.servers[0].requests == 4);
  CHECK(with.cluster.servers[0].failed == 0);
}

}  // namespace moelab::cluster_loading_test
