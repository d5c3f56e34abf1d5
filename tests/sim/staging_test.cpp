// Experts that a step uses and the cache does not keep: a prompt's pass through the room that a decode step's
// take.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

#include "models/timing.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::staging_test {

using namespace moelab::test;

namespace {

struct Use {
  double begin = 0, end = -1;
};

/// Of experts that the graph makes ready and executes: from what it begins with to the end of the execution.
std::vector<Use> uses_of(const DoneGraph& graph) {
  std::map<std::uint32_t, Use> uses;
  for (const DoneOp& op : graph.ops) {
    const OpKind kind = op.label.kind;
    if (kind != OpKind::read_sm && kind != OpKind::read_e && kind != OpKind::read_tensor &&
        kind != OpKind::decompress)
      continue;
    const auto [at, first] = uses.try_emplace(op.label.expert, Use{op.start});
    if (!first) at->second.begin = std::min(at->second.begin, op.start);
  }
  std::vector<Use> executed;
  for (const DoneOp& op : graph.ops)
    if (const auto at = uses.find(op.label.expert); op.label.kind == OpKind::execute && at != uses.end())
      executed.push_back({at->second.begin, op.end});
  return executed;
}

/// How many there are at once at most; who ends where another begins has gone.
std::size_t most_at_once(const std::vector<Use>& uses) {
  std::size_t most = 0;
  for (const Use& at : uses)
    most = std::max<std::size_t>(most, std::count_if(uses.begin(), uses.end(), [&](const Use& use) {
                                   return use.begin <= at.begin && at.begin < use.end;
                                 }));
  return most;
}

/// Each row uses the next k experts of the only layer with some.
RoutingTrace rows_of_all_experts(const Architecture& model) {
  const auto experts = static_cast<std::uint32_t>(model.moe().experts);
  const auto k = static_cast<std::uint32_t>(model.moe().top_k);
  RoutingTraceBuilder builder(model.name, "made up by a test", true, 1, experts, k, false);
  const auto add = [&](Phase phase, std::uint32_t first) {
    std::vector<std::uint16_t> ids;
    for (std::uint32_t i = 0; i < k; ++i) ids.push_back(static_cast<std::uint16_t>(first + i));
    builder.add_token(phase, ids, {});
  };
  builder.begin_request();
  for (std::uint32_t first = 0; first + k <= experts; first += k) add(Phase::prefill, first);
  add(Phase::decode, 0);
  return builder.finish();
}

}  // namespace

TEST_CASE("staging: no step has more experts in use than there is room for") {
  std::size_t waited = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(1000u); ++seed) {
    const SmallRun run = seed % 2 == 0 ? random_run(seed) : random_discrete_run(seed);
    INFO("seed " << seed);
    const FeedForward& ff = run.scenario.model.moe();
    std::size_t room = std::min<std::size_t>(ff.experts, ff.top_k * run.scenario.workload.batch);
    if (run.system().fetch_whole_layer) room = ff.experts;
    Recorder record;
    run.run(&record);
    for (const DoneGraph& graph : record.graphs) {
      const std::vector<Use> uses = uses_of(graph);
      CHECK(most_at_once(uses) <= room);
      waited += uses.size() > room ? 1 : 0;
    }
  }
  CHECK(waited > moelab::test::random_runs(100));
}

TEST_CASE("staging: a prompt's experts follow each other through it") {
  for (int k = 1; k <= 4; ++k) {
    SmallRun run;
    Scenario& s = run.scenario;
    s.model = small_model({.moe_layers = 1, .experts = 12, .top_k = k});
    s.device = small_device();
    s.workload.batch = 1;
    s.systems = {plain_system()};
    run.trace = rows_of_all_experts(s.model);
    give_room(run, 0);
    const double read = run.costs().timing.sm_read_s * s.model.moe().matrices;
    // From experts that take no time to those that take longer than their reads: who waits for whom changes.
    for (const double launch : {0.0, 0.3, 1.0, 1.5}) {
      s.device.gpu->launch.value = Seconds(launch * read);
      const double execute = TimingModel(s.device).expert(s.model, s.model.moe(), 1, false).value();
      std::vector<double> read_by, executed_by;
      for (std::size_t e = 0; e + k <= 12; e += k)
        for (std::size_t i = e; i < e + k; ++i) {
          double begin = read_by.empty() ? 0 : read_by.back();
          if (i >= static_cast<std::size_t>(k)) begin = std::max(begin, executed_by[i - k]);
          read_by.push_back(begin + read);
          const double ready = executed_by.empty() ? 0 : executed_by.back();
          executed_by.push_back(std::max(ready, read_by.back()) + execute);
        }
      Recorder record;
      run.run(&record);
      const auto prompt = std::find_if(record.graphs.begin(), record.graphs.end(),
                                       [](const DoneGraph& graph) { return graph.holds(OpKind::execute); });
      REQUIRE(prompt != record.graphs.end());
      double begin = prompt->ops.front().start, end = 0;
      for (const DoneOp& op : prompt->ops) {
        begin = std::min(begin, op.start);
        end = std::max(end, op.end);
      }
      CHECK(end - begin == Approx(executed_by.back()).epsilon(1e-9));
    }
  }
}

}  // namespace moelab::staging_test
