// The serving loop on discrete GPUs against closed forms, a naive replay and conservation laws.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>

#include "models/input_error.hpp"
#include "models/timing.hpp"
#include "policies/execution/execution.hpp"
#include "policies/routing/routing.hpp"
#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/discrete_cases.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/serving_reference.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::discrete_serving_test {

using namespace moelab::test;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(500u, 100u);

/// What the CPU computed, by pass and layer; and that nothing was computed twice, or loaded for the CPU.
ExpertsOfLayer check_who_computes(const SmallRun& run, const Recorder& record) {
  ExpertsOfLayer on_cpu;
  bool once = true, from_host = true;
  for (const DoneGraph& graph : record.graphs) {
    std::set<std::uint32_t> gpu, cpu, loaded;
    double sent = 0, computed = 0;
    for (const DoneOp& op : graph.ops) {
      if (op.label.kind == OpKind::execute) once &= gpu.insert(op.label.expert).second;
      if (op.label.kind == OpKind::cpu_execute) {
        once &= cpu.insert(op.label.expert).second;
        from_host &= op.start >= sent && sent > 0;
        computed = std::max(computed, op.end);
      }
      if (op.label.tier == Tier::host && op.label.tensor == 0) once &= loaded.insert(op.label.expert).second;
      if (op.label.kind == OpKind::send) sent = op.end;
    }
    for (const DoneOp& op : graph.ops)
      if (op.label.kind == OpKind::receive) from_host &= op.start >= computed && computed > 0;
    for (const std::uint32_t e : cpu) once &= !gpu.contains(e) && !loaded.contains(e);
    if (!cpu.empty()) on_cpu[{graph.pass, graph.layer}] = cpu;
  }
  CHECK(once);
  CHECK(from_host);
  if (run.system().execution.name == "gpu-only") CHECK(on_cpu.empty());
  return on_cpu;
}

ExpertsOfLayer executed_experts(const Recorder& record) {
  ExpertsOfLayer executed;
  for (const DoneGraph& graph : record.graphs)
    for (const DoneOp& op : graph.ops)
      if (op.label.kind == OpKind::execute || op.label.kind == OpKind::cpu_execute)
        executed[{graph.pass, graph.layer}].insert(op.label.expert);
  return executed;
}

void check_counts(const RunResult& r) {
  const Metrics& m = r.metrics;
  const double found = sum(m.decode_hits);
  CHECK(static_cast<double>(m.decode_hits[index(State::F)] + m.decode_hits[index(State::M)]) == found);
  CHECK(static_cast<double>(m.execution.loaded + m.execution.on_cpu) <=
        static_cast<double>(m.decode_hits[index(State::M)]));
  if (m.prefetch.late == 0) CHECK(m.execution.loaded + m.execution.on_cpu == m.decode_hits[index(State::M)]);
  const RoutingCounts& c = m.routing;
  CHECK(c.active == c.top_score + c.low_score);
  CHECK(c.substituted <= c.low_score);
  CHECK(c.mass_moved >= 0);
  CHECK(c.mass_moved <= c.score_sum);
  if (c.active > 0) CHECK(c.top_score_misses + c.low_score_misses == m.decode_hits[index(State::M)]);
  CHECK(sum(m.decode_stall_s) <= m.wall_s * (1 + 1e-9));
  CHECK(m.prefetch.used_top_score <= m.prefetch.used + m.prefetch.late);
}

}  // namespace

TEST_CASE("discrete GPU: random systems keep the laws and agree with naive replays") {
  std::map<std::string, int> seen;
  std::uint64_t substituted = 0, cpu_experts = 0, late = 0, on_ssd = 0;
  for (std::uint64_t seed = 1; seed <= kRandomRuns; ++seed) {
    SmallRun run = random_discrete_run(seed);
    Random host(seed + 0xd15c);
    if (host.below(3) == 0) crowd_host(run, host);
    const SystemConfig& system = run.system();
    INFO("seed " << seed << ", cache " << system.cache.name << ", routing " << system.routing.name
                 << ", execution " << system.execution.name << ", prefetch " << system.prefetch.name);
    Recorder record;
    const RunResult r = run.run(&record);
    check_no_gaps(record, r);
    check_conservation(run, record, r);
    check_prefetch_counts(r, record);
    check_counts(r);
    const ExpertsOfLayer on_cpu = check_who_computes(run, record);
    CHECK(results_json({run.run()}) == results_json({r}));
    if (system.prefetch.name == "none") {
      const Counts expected = replay(run, r, on_cpu);
      CHECK(r.metrics.hits == expected.hits);
      CHECK(r.metrics.decode_hits == expected.decode_hits);
      CHECK(executed_experts(record) == expected.used);
      for (std::size_t t = 0; t < expected.bytes.size(); ++t)
        CHECK(r.metrics.bytes[t] == Approx(expected.bytes[t]).epsilon(1e-9));
    }
    for (const std::string& name : {"cache " + system.cache.name, "routing " + system.routing.name,
                                    "execution " + system.execution.name, "prefetch " + system.prefetch.name})
      ++seen[name];
    substituted += r.metrics.routing.substituted;
    cpu_experts += r.metrics.execution.on_cpu;
    late += r.metrics.prefetch.late;
    on_ssd += r.metrics.bytes[static_cast<std::size_t>(Tier::ssd)] > 0 ? 1 : 0;
  }
  for (const auto& entry : cache_policies())
    CHECK((seen["cache " + std::string(entry.info.name)] > 0) == !entry.uses_pools);
  for (const auto& entry : routing_policies()) CHECK(seen["routing " + std::string(entry.info.name)] > 0);
  for (const auto& entry : execution_policies()) CHECK(seen["execution " + std::string(entry.info.name)] > 0);
  for (const auto& entry : prefetch_policies()) CHECK(seen["prefetch " + std::string(entry.info.name)] > 0);
  CHECK(substituted > moelab::test::random_runs(100u));
  CHECK(cpu_experts > moelab::test::random_runs(1000u));
  CHECK(late > moelab::test::random_runs(100u));
  CHECK(on_ssd > moelab::test::random_runs(50u));
}

TEST_CASE("discrete GPU: alpha 0 changes nothing") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(60u); ++seed) {
    SmallRun run = random_discrete_run(seed);
    SystemConfig& system = run.scenario.systems.front();
    const CachePolicyEntry& cache = *find_cache_policy(system.cache.name);
    if (cache.needs_scores || cache.needs_all_scores || cache.needs_future) continue;
    // Routing looks at what was prefetched before the step begins, else it is offered just after:
    // MoE-Infinity's cache, which protects it until its layer's next step, can tell.
    if (cache.info.name == "moe-infinity" && system.prefetch.name != "none") continue;
    INFO("seed " << seed << ", cache " << system.cache.name);
    system.routing = {"model", {}};
    system.execution = {"gpu-only", {}};  // goes by no score: those of the gates and of the router may differ
    const RunResult as_chosen = run.run();
    system.routing = {"smoe", {{"alpha", 0}}};
    RunResult routed = run.run();
    CHECK(routed.metrics.routing.substituted == 0);
    const auto& gaps = routed.metrics.token_gaps_s;
    REQUIRE(gaps.size() == as_chosen.metrics.token_gaps_s.size());
    for (std::size_t i = 0; i < gaps.size(); ++i)
      CHECK(gaps[i] == Approx(as_chosen.metrics.token_gaps_s[i]).epsilon(1e-12));
    CHECK(routed.metrics.hits == as_chosen.metrics.hits);
  }
}

namespace {

/// One request that uses experts 0 .. k-1 of its one layer in every pass, nothing kept.
SmallRun steady_discrete_run(std::string execution, double dispatch_s) {
  SmallRun run;
  run.scenario.name = "steady";
  run.scenario.model = small_model({.moe_layers = 1, .experts = 6, .top_k = 4, .shared_width = 48});
  run.scenario.device = small_discrete_device();
  run.scenario.device.cpu.dispatch.value = Seconds(dispatch_s);
  SystemConfig system = plain_system();
  system.execution.name = std::move(execution);
  run.scenario.systems = {system};
  run.trace = steady_trace(run.scenario.model, {3, 4});
  give_room(run, 1);
  return run;
}

struct DecodeTimes {
  double attention, expert, shared, head, load, cpu, send, receive;  // hand-over included
};

DecodeTimes decode_times(const SmallRun& run, double context) {
  const Scenario& s = run.scenario;
  const Architecture& m = s.model;
  const TimingModel timing(s.device);
  const Layer& layer = m.layers.back();
  const double dispatch = timing.dispatch().value();
  const Bytes row(2.0 * m.hidden);
  const Work expert = expert_work(m, m.moe(), 1);
  const auto cpu_roofline = [&] {  // 2 GFLOP/s, 500 MB/s, 1 us a kernel
    return std::max(expert.flops.value() / 2e9, expert.weight_bytes.value() / 5e8) + 1e-6 * expert.kernels;
  };
  return {timing.kernel(attention_work(m, layer, 1, context, 1)).value() + dispatch,
          timing.kernel(expert).value() + dispatch,
          timing.kernel(dense_work(m, layer, 1)).value() + dispatch,
          timing.kernel(head_work(m, 1)).value() + dispatch,
          3 * (3e-6 + expert_bytes(m).value() / 3 / 4e8 + dispatch),
          cpu_roofline() + dispatch,
          2e-6 + row.value() / 3e8 + dispatch,
          3e-6 + row.value() / 4e8 + dispatch};
}

}  // namespace

TEST_CASE("discrete GPU: loads follow each other over the link, each computed once it is there") {
  for (const double dispatch : {0.0, 3e-7}) {
    const SmallRun run = steady_discrete_run("gpu-only", dispatch);
    const RunResult r = run.run();
    REQUIRE(r.metrics.token_gaps_s.size() == 4);
    for (std::size_t row = 0; row < 4; ++row) {
      const DecodeTimes t = decode_times(run, 4 + static_cast<double>(row));
      REQUIRE(t.load > t.expert);  // so that the last load alone decides
      REQUIRE(t.load > t.shared);
      CHECK(r.metrics.token_gaps_s[row] ==
            Approx(t.attention + 4 * t.load + t.expert + t.head).epsilon(1e-12));
    }
    CHECK(r.metrics.execution.loaded == 16);
    CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::host)] ==
          Approx(5 * 4 * expert_bytes(run.scenario.model).value()));
  }
}

TEST_CASE("discrete GPU: the CPU's experts wait for the activations and send theirs back") {
  for (const double dispatch : {0.0, 3e-7}) {
    const SmallRun run = steady_discrete_run("cpu-only", dispatch);
    const RunResult r = run.run();
    for (std::size_t row = 0; row < 4; ++row) {
      const DecodeTimes t = decode_times(run, 4 + static_cast<double>(row));
      CHECK(r.metrics.token_gaps_s[row] ==
            Approx(t.attention + t.send + 4 * t.cpu + t.receive + t.head).epsilon(1e-12));
    }
    CHECK(r.metrics.execution.on_cpu == 16);
    CHECK(r.metrics.bytes[static_cast<std::size_t>(Tier::host)] == 0);
    CHECK(r.metrics.decode_stall_s[static_cast<std::size_t>(Cause::cpu_experts)] ==
          Approx(16 * decode_times(run, 1).cpu).epsilon(1e-12));
  }
}

TEST_CASE("discrete GPU: time on the link goes to the experts that were loaded, by their class") {
  SmallRun run = steady_discrete_run("gpu-only", 0);
  // Scores 0.9, 0.8, 0.5, 0.5 and 0.49 for the next: with alpha 0.1 the last two chosen are low-score.
  TraceDescription about;
  about.model = "small-model";
  about.provenance = "made up by a test";
  about.layers = 1;
  about.experts = 6;
  about.top_k = 4;
  about.router_scores = RouterScores::sigmoid;
  RoutingTraceBuilder builder(about);
  builder.begin_request();
  const std::vector<std::uint16_t> ids = {0, 1, 2, 3};
  const std::vector<float> scores = {0.9F, 0.8F, 0.5F, 0.5F, 0.49F, 0.1F};
  for (int row = 0; row < 3; ++row) builder.add_token({Phase::decode, ids, {}, scores, {}, {}});
  run.trace = builder.finish();
  run.scenario.systems.front().routing = {"smoe", {{"alpha", 0.1}, {"substitute", 0}}};
  const RunResult r = run.run();
  const double load = decode_times(run, 1).load;
  CHECK(r.metrics.routing.low_score == 6);
  CHECK(r.metrics.routing.low_score_misses == 6);
  CHECK(r.metrics.routing.top_score_misses == 6);
  CHECK(r.metrics.routing.score_sum == Approx(3 * 2.7).epsilon(1e-6));
  CHECK(r.metrics.decode_stall_s[static_cast<std::size_t>(Cause::expert_load)] == Approx(6 * load));
  CHECK(r.metrics.decode_stall_s[static_cast<std::size_t>(Cause::low_score_load)] == Approx(6 * load));
}

TEST_CASE("discrete GPU: an execution policy hears how many tokens run and how many experts are there") {
  // hybrimoe-code's constants, one token: with nothing on the GPU three loads would be done at 0.918, 1.418
  // and 1.918 > 1.79, so the CPU takes the least of four; with three there the fourth would be done at 2
  // > 1.79, so the CPU takes it, which with none there would be loaded; with one there, two of three missing
  // ones would be done at 1 and 1.5, and the third at 2. Two tokens: all are loaded.
  for (const std::uint32_t batch : {1U, 2U}) {
    SmallRun run = steady_discrete_run("hybrimoe-code", 0);
    run.scenario.systems.front().cache.name = "lru";
    run.scenario.workload.batch = batch;
    TraceDescription about;
    about.model = "small-model";
    about.provenance = "made up by a test";
    about.layers = 1;
    about.experts = 6;
    about.top_k = 4;
    about.router_scores = RouterScores::sigmoid;
    RoutingTraceBuilder builder(about);
    const std::vector<float> scores = {0.9F, 0.8F, 0.7F, 0.6F, 0.5F, 0.1F};
    for (std::uint32_t request = 0; request < batch; ++request) {
      builder.begin_request();
      for (const std::vector<std::uint16_t>& ids :
           {std::vector<std::uint16_t>{0, 1, 2, 3}, {0, 1, 2, 4}, {0, 3, 4, 5}})
        builder.add_token({Phase::decode, ids, {}, scores, {}, {}});
    }
    run.trace = builder.finish();
    give_room(run, 6);
    const RunResult r = run.run();
    CHECK(r.metrics.execution.loaded == (batch == 1 ? 5 : 6));
    CHECK(r.metrics.execution.on_cpu == (batch == 1 ? 3 : 0));
  }
}

TEST_CASE("discrete GPU: what cannot be is refused by name") {
  const auto problem = [](const SmallRun& run) -> std::string {
    try {
      check_scenario(run.scenario, run.trace);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const auto says = [&](const SmallRun& run, const std::string& what) {
    INFO(problem(run));
    CHECK(problem(run).find(what) != std::string::npos);
  };
  const SmallRun good = steady_discrete_run("gpu-only", 0);
  CHECK(problem(good).empty());
  SmallRun run = good;
  run.scenario.systems.front().routing.name = "smoe";
  says(run, "routing 'smoe', which needs the gate scores of all experts; the trace has none");
  run = good;
  run.scenario.systems.front().cache.name = "score-average";
  says(run, "cache 'score-average', which needs the gate scores of all experts");
  run = good;
  run.scenario.systems.front().execution.name = "cpu-assisted";
  says(run, "execution 'cpu-assisted', which needs gate scores; the trace has none");
  run = good;
  run.scenario.systems.front().execution.name = "cpu-only";
  run.scenario.device.cpu.peak.reset();
  says(run, "execution 'cpu-only', which lets the CPU compute experts; device 'small-device' has neither");
  run = good;
  run.scenario.systems.front().schedule.name = "longest-first";
  says(run, "the execution policy orders loads");
  run = good;
  run.scenario.device.gpu->own->total.value = run.scenario.budget;
  says(run, "is more than the GPU of device 'small-device' has to give");
  run = good;
  run.scenario.budget = Bytes(10e3);
  CHECK_THROWS_WITH(check_fits(run.run()), Catch::Contains("budget 10 kB is too small for system 'plain'"));
  run = good;
  run.scenario.device.memory.total.value = run.scenario.device.memory.system_reserve.value + Bytes(1e3);
  CHECK(run.run().memory.experts_on_ssd);
  run = good;
  run.scenario.device = small_device();
  run.scenario.systems.front().execution.name = "cpu-only";
  says(run, "device 'small-device' has no GPU with memory of its own");
}

}  // namespace moelab::discrete_serving_test
