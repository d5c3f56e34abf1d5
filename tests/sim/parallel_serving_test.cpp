// Expert and data parallelism: times against a second, naive implementation and against closed forms; who
// computes what, and what is exchanged.
#include <catch2/catch.hpp>
#include <limits>

#include "models/expert_parallel.hpp"
#include "sim/serving/gpu_times.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/parallel_reference.hpp"
#include "tests/sim/serving_checks.hpp"

namespace moelab::parallel_serving_test {

using namespace moelab::test;

namespace {

/// Whether each GPU has as many experts as any other, or nothing is streamed.
bool has_even_windows(const SmallRun& run) {
  const Scenario& s = run.scenario;
  const std::vector<std::string>& backends = run.system().paging->backends;
  return backends == std::vector<std::string>{"resident"} || s.model.moe().experts % s.expert_ranks() == 0;
}

Division any_division(Random& random) {
  const std::uint32_t gpus = 2 + static_cast<std::uint32_t>(random.below(2)) * 2;
  if (coin(random)) return {gpus, 1, true};
  return {1, gpus, coin(random)};
}

/// Mostly with some more requests, so that ranks have several.
SmallRun random_parallel_run(std::uint64_t seed, bool codecs) {
  Random random(seed + 0xd1f);
  SmallRun run = random_paged_run(seed, codecs, any_division(random));
  std::vector<RequestRecord>& log = run.scenario.workload.log;
  for (std::uint64_t more = random.below(8); more > 0; --more)
    log.push_back({log.back().arrival_s, from(random, 1, 6), from(random, 1, 6)});
  return run;
}

void check_as_naive(const SmallRun& run, double& exchanged, int& swapped) {
  const Metrics m = run.run().metrics;
  NaiveGpus naive(run);
  const NaiveResult n = naive.serve();
  check_equal(m, n);
  // What an exchange and a load go on at once is waiting for the load, where that ends later.
  const double waited = m.stall_s[static_cast<std::size_t>(Cause::exchange)];
  CHECK(waited <= naive.exchanged_s() * (1 + 1e-9));
  if (n.loaded + n.decoded == 0) CHECK(waited == Approx(naive.exchanged_s()).epsilon(1e-9));
  double causes = 0;
  for (const double s : m.stall_s) causes += s;
  CHECK(causes <= m.wall_s * (1 + 1e-9));
  exchanged += waited;
  swapped += m.serving.swapped_out > 0 ? 1 : 0;
}

/// Rows that each use experts of their own of every layer: row number i those of `chosen[i]`.
RoutingTrace written_trace(const Architecture& model, const std::vector<std::vector<std::uint16_t>>& chosen) {
  const FeedForward& ff = model.moe();
  const auto layers = static_cast<std::uint32_t>(model.moe_layers().size());
  RoutingTraceBuilder builder(model.name, "made up by a test", true, layers,
                              static_cast<std::uint32_t>(ff.experts), static_cast<std::uint32_t>(ff.top_k),
                              false);
  builder.begin_request();
  for (const auto& row : chosen) {
    std::vector<std::uint16_t> ids;
    for (std::uint32_t l = 0; l < layers; ++l) ids.insert(ids.end(), row.begin(), row.end());
    builder.add_token(Phase::decode, ids, {});
  }
  return builder.finish();
}

/// Two requests that decode one token, each a row of the trace.
SmallRun two_rows(const Division& division, const std::vector<std::vector<std::uint16_t>>& chosen,
                  const std::string& backend = "resident") {
  SmallRun run = paged_run(small_model({.moe_layers = 3, .experts = 4, .top_k = 2}), {backend}, division);
  WorkloadConfig& w = run.scenario.workload;
  w.batch = division.data > 1 ? 1 : 2;
  w.requests = 2;
  w.prompt_tokens = 1;
  w.output_tokens = 1;
  w.prefilled = true;
  run.trace = written_trace(run.scenario.model, chosen);
  return run;
}

/// Of routed experts alone.
double experts_s(const SmallRun& run) {
  return run.run().metrics.stall_s[static_cast<std::size_t>(Cause::expert_compute)];
}

}  // namespace

TEST_CASE("parallel: every run takes as long as GPUs one by one say") {
  const bool codecs = GENERATE(false, true), drafts = GENERATE(false, true);
  int ran = 0, swapped = 0, streamed = 0, uneven = 0;
  double exchanged = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(1500u, 200u); ++seed) {
    SmallRun run = random_parallel_run(seed, codecs);
    const Scenario& s = run.scenario;
    if (drafts) add_drafts(run, seed);
    if (s.expert_ranks() > static_cast<std::uint32_t>(s.model.moe().experts)) continue;
    if (!has_even_windows(run) || !can_run(run)) continue;
    INFO("seed " << seed << (codecs ? " with codecs, " : ", ") << (drafts ? "with drafts, " : "")
                 << s.tensor_parallel << " x " << s.data_parallel << (s.expert_parallel ? " experts" : ""));
    ++ran;
    check_as_naive(run, exchanged, swapped);
    streamed += run.system().paging->backends != std::vector<std::string>{"resident"} ? 1 : 0;
    uneven += s.model.moe().experts % s.expert_ranks() != 0 ? 1 : 0;
  }
  INFO(ran << " ran, " << swapped << " swapped, " << streamed << " streamed, " << uneven << " uneven");
  CHECK(ran > random_runs(400));  // what is compared is not empty
  if (!drafts) CHECK(swapped > random_runs(10));
  CHECK(streamed > random_runs(100));
  CHECK(exchanged > 0);
  if (!codecs) CHECK(uneven > random_runs(30));
}

TEST_CASE("parallel: experts over one GPU are no experts over GPUs, to the last digit") {
  for (std::uint64_t seed = 1; seed <= random_runs(200u, 40u); ++seed) {
    const SmallRun with = random_paged_run(seed, seed % 2 == 0, Division{1, 1, true});
    const SmallRun without = random_paged_run(seed, seed % 2 == 0, Division{});
    if (!can_run(with)) continue;
    const RunResult a = with.run(), b = without.run();
    CHECK(a.metrics.wall_s == b.metrics.wall_s);
    CHECK(a.metrics.token_gaps_s == b.metrics.token_gaps_s);
    CHECK(a.metrics.stall_s == b.metrics.stall_s);
    CHECK(a.memory.kv_blocks == b.memory.kv_blocks);
    REQUIRE(a.busy.size() == b.busy.size());
    for (std::size_t i = 0; i < a.busy.size(); ++i) CHECK(a.busy[i].name == b.busy[i].name);
  }
}

TEST_CASE("parallel: where every GPU has as much to do, whole experts take as long as slices of all") {
  // Half of the experts whole, or all of them by half: the same weights, the same products.
  const std::vector<std::vector<std::uint16_t>> balanced = {{0, 2}, {1, 3}};
  const std::string backend = GENERATE("resident", "host", "ssd", "huff");
  const Division slices = GENERATE(Division{2, 1, false}, Division{1, 2, false});
  const Division whole{slices.tensor, slices.data, true};
  const RunResult a = two_rows(slices, balanced, backend).run(), b = two_rows(whole, balanced, backend).run();
  CHECK(b.metrics.wall_s == Approx(a.metrics.wall_s).epsilon(1e-12));
  CHECK(b.metrics.serving.loaded_bytes == a.metrics.serving.loaded_bytes);
  CHECK(b.metrics.serving.ssd_bytes == a.metrics.serving.ssd_bytes);
  CHECK((backend == "ssd") == (b.metrics.serving.ssd_bytes > 0));
}

TEST_CASE("parallel: the GPU with most to do decides") {
  // A product streams its weights: by bytes. Of 4 experts GPU 0 has 0 and 1.
  const double expert = 3.0 * 32 * 48 * 2, rate = 1e9;
  const Division division = GENERATE(Division{2, 1, true}, Division{1, 2, true});
  SmallRun one = two_rows(division, {{0, 1}, {0, 1}});    // all of both rows on GPU 0
  SmallRun even = two_rows(division, {{0, 2}, {1, 3}});   // each has two pairs and touches two
  SmallRun twin = two_rows(division, {{0, 2}, {0, 2}});   // each touches one
  SmallRun three = two_rows(division, {{0, 1}, {0, 2}});  // GPU 0 touches two, GPU 1 one
  for (SmallRun* run : {&one, &even, &twin, &three}) {
    run->scenario.device.gpu->peak.value = FlopsPerSecond(1e15);
    run->scenario.device.gpu->launch.value = Seconds(0);
  }
  CHECK(experts_s(one) == Approx(3 * 2 * expert / rate).epsilon(1e-9));
  CHECK(experts_s(even) == Approx(3 * 2 * expert / rate).epsilon(1e-9));
  CHECK(experts_s(twin) == Approx(3 * 1 * expert / rate).epsilon(1e-9));
  CHECK(experts_s(three) == Approx(3 * 2 * expert / rate).epsilon(1e-9));
}

TEST_CASE("parallel: how evenly GPUs divide the experts, and what they exchange") {
  const auto counts = [](const Division& division, const std::vector<std::vector<std::uint16_t>>& chosen) {
    return two_rows(division, chosen).run().metrics.serving;
  };
  const Division tensor{2, 1, true}, data{1, 2, true};
  CHECK(counts(tensor, {{0, 1}, {0, 1}}).balancedness() == 0.5);  // 4 pairs on one of two GPUs
  CHECK(counts(tensor, {{0, 2}, {1, 3}}).balancedness() == 1);
  CHECK(counts(data, {{0, 1}, {0, 2}}).balancedness() == Approx(2.0 / 3).epsilon(1e-15));  // 3 and 1
  CHECK(counts(tensor, {{0, 1}, {0, 1}}).exchanged_bytes == 0);
  // 3 layers: the row of the other GPU, of 32 values, with two choices; and a row back.
  CHECK(counts(data, {{0, 1}, {0, 2}}).exchanged_bytes == 3 * ((2 * 32 + 2 * 8) + 2 * 32));
  CHECK(counts({1, 2, false}, {{0, 1}, {0, 2}}).most_pairs == 0);
}

TEST_CASE("parallel: every pair of row and expert is computed on exactly one GPU") {
  for (std::uint64_t seed = 1; seed <= random_runs(1000u, 200u); ++seed) {
    Random random(seed);
    const std::uint32_t gpus = from(random, 1, 4);
    ModelShape shape{.moe_layers = 2, .experts = static_cast<int>(from(random, gpus, 9)), .top_k = 2};
    shape.experts = std::max(shape.experts, 2);
    const SmallRun run = paged_run(small_model(shape), {"resident"}, {1, gpus, true});
    const RoutingTrace trace = random_trace(random, run.scenario.model, {{0, 20}}, false, coin(random));
    const TimingModel timing(run.scenario.device);
    GpuTimes times(run.scenario, run.system(), timing, trace);
    Pass pass;
    pass.of_ranks.resize(gpus > 1 ? gpus : 0);
    std::vector<double> rows(gpus);
    for (std::uint64_t begin = 0; begin < trace.tokens(); begin += 4) {
      const std::uint64_t end = std::min<std::uint64_t>(begin + from(random, 1, 4), trace.tokens());
      const auto count = static_cast<std::uint32_t>(end - begin);
      const std::uint32_t rank = from(random, 0, gpus - 1);
      pass.rows.emplace_back(begin, end);
      pass.tokens += count;
      pass.runs.push_back({.first = 1, .rows = count});
      rows[rank] += count;
      if (gpus == 1) continue;
      pass.of_ranks[rank].tokens += count;
      pass.of_ranks[rank].runs.push_back(pass.runs.back());
    }
    times.begin(pass);
    for (std::uint32_t layer = 0; layer < 2 && gpus > 1; ++layer) {
      double pairs = 0, chosen = 0;
      for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) pairs += times.pairs(gpu, layer);
      for (const auto& [begin, end] : pass.rows)
        for (std::uint64_t row = begin; row < end; ++row)
          for (const std::uint16_t expert : trace.experts_of(row, layer))
            chosen += expert == kNoExpert ? 0 : 1;
      CHECK(pairs == chosen);
    }
    // What crosses each link: the rows of the others, as many as the GPU with most has.
    const double most = std::max(1.0, *std::max_element(rows.begin(), rows.end()));
    const double of_row = 2.0 * 32;
    CHECK(times.dispatch().link_bytes == (gpus - 1) * most * (gpus > 1 ? of_row + 8 * 2 : 0));
    CHECK(times.combine().link_bytes == (gpus - 1) * most * (gpus > 1 ? of_row : 0));
    CHECK(times.all_reduce().seconds == 0);
  }
}

TEST_CASE("parallel: exchanges that take no time leave what the slowest GPU computes") {
  for (std::uint64_t seed = 1; seed <= random_runs(100u, 30u); ++seed) {
    SmallRun run = random_parallel_run(seed, false);
    const Scenario& s = run.scenario;
    if (s.expert_ranks() > static_cast<std::uint32_t>(s.model.moe().experts)) continue;
    if (!has_even_windows(run) || !can_run(run)) continue;
    const RunResult before = run.run();
    for (AllReduceProfile& reduce : run.scenario.device.gpu->node->all_reduce)
      reduce.seconds.value = Curve({{0, 0}});
    run.scenario.workload.log.resize(1);  // at 0: nothing waits for a moment
    run.scenario.workload.log.front().arrival_s = 0;
    const Metrics m = run.run().metrics;
    CHECK(m.stall_s[static_cast<std::size_t>(Cause::exchange)] == 0);
    CHECK(m.stall_s[static_cast<std::size_t>(Cause::all_reduce)] == 0);
  }
}

TEST_CASE("parallel: as many requests more as GPUs more take no longer, but for what is exchanged") {
  // Each rank has one request; all rows use the same experts, one of each GPU, and products stream weights.
  for (const std::uint32_t ranks : {2U, 4U}) {
    const auto run_of = [&](const Division& division, std::uint32_t requests) {
      SmallRun run =
          paged_run(small_model({.moe_layers = 2, .experts = 4, .top_k = 4}), {"resident"}, division);
      WorkloadConfig& w = run.scenario.workload;
      w.batch = 1;
      w.requests = requests;
      w.prompt_tokens = 1;
      w.output_tokens = 9;
      w.prefilled = true;
      run.scenario.device.gpu->peak.value = FlopsPerSecond(1e15);
      run.trace = written_trace(run.scenario.model, {{0, 1, 2, 3}});
      return run.run().metrics;
    };
    const Metrics one = run_of({}, 1), all = run_of({1, ranks, true}, ranks);
    const auto of = [](const Metrics& m, Cause cause) { return m.stall_s[static_cast<std::size_t>(cause)]; };
    CHECK(of(all, Cause::dense_compute) == Approx(of(one, Cause::dense_compute)).epsilon(1e-9));
    // 4 / ranks experts in the place of 4, streamed.
    const double launches = 9 * 2 * 1.0 * small_node().gpu->launch.value.value();
    CHECK(of(all, Cause::expert_compute) < of(one, Cause::expert_compute) / ranks + launches * 4);
    const double row = 2.0 * 32, latency = ranks == 2 ? 1.7e-6 : 2.9e-6, rate = ranks == 2 ? 9e8 : 6e8;
    const double exchange = 2 * latency + (ranks * (row + 32) / 2 + ranks * row / 2) / rate;
    CHECK(of(all, Cause::exchange) == Approx(9 * 2 * exchange).epsilon(1e-9));
    CHECK(all.tokens == ranks * one.tokens);
  }
}

namespace {

class MemoryWatcher final : public GraphObserver {
 public:
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override {}
  bool wants_memory() const override { return true; }
  void holds(double, const MemoryContents& memory) override { most_kv = std::max(most_kv, memory.kv_bytes); }
  double most_kv = 0;
};

}  // namespace

TEST_CASE("parallel: a KV cache on each GPU, of which a part is in use") {
  SmallRun run = two_rows({1, 2, true}, {{0, 2}, {1, 3}});
  run.scenario.workload.prompt_tokens = 9;  // and one that decodes: 3 blocks of 4 tokens on either GPU
  const MemoryPlan m = plan_of(run).memory;
  MemoryWatcher watcher;
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &watcher; };
  const Metrics metrics = run_system(run.scenario, run.system(), run.trace, options).metrics;
  CHECK(metrics.serving.most_blocks == 6);
  CHECK(metrics.serving.most_kv_use == Approx(3.0 / static_cast<double>(m.kv_blocks)).epsilon(1e-12));
  CHECK(watcher.most_kv == 3 * m.kv_block.value());
}

TEST_CASE("parallel: few pairs on a GPU are no step of one token") {
  // Two rows use one expert of each GPU: two pairs there, as many as a single token's.
  SmallRun run = two_rows({2, 1, true}, {{0, 2}, {0, 2}});
  RuntimeCosts& costs = run.scenario.device.software.emplace();
  costs.expert_bandwidth = 0.9;
  costs.batched_bandwidth = 0.3;
  costs.expert_peak = 1;
  run.scenario.device.gpu->peak.value = FlopsPerSecond(1e18);
  const double bytes = 3.0 * 32 * 48 * 2;
  CHECK(experts_s(run) == Approx(3 * bytes / (0.3 * 1e9)).epsilon(1e-6));
}

TEST_CASE("parallel: what storage policies are told of a layer and of the host's memory") {
  const auto shape_of = [](const Division& division, bool free) {
    SmallRun run = paged_run(small_model({}), {"resident", "host"}, division);
    run.scenario.systems.front().kv.swap_space = Bytes(1e6);
    run.scenario.device.memory.total.value = Bytes(9e6);
    run.scenario.device.memory.system_reserve.value = Bytes(1e6);
    if (free)
      for (AllReduceProfile& reduce : run.scenario.device.gpu->node->all_reduce)
        reduce.seconds.value = Curve({{0, 0}});
    return plan_of(run).split.shape();
  };
  for (const Division& division : {Division{2, 1, true}, Division{1, 2, true}, Division{1, 2, false}}) {
    const StorageShape shape = shape_of(division, false);
    CHECK(shape.backends[1].capacity_bytes == 8e6 / 2 - 1e6);
    CHECK(shape.experts == (division.experts ? 2 : 4));
    CHECK(shape.expert_bytes == 3.0 * 32 * (division.experts ? 48 : 24) * 2);
  }
  // Four rows of each GPU, 64 bytes of hidden states and two choices; and back.
  const double exchange = 2 * 1.7e-6 + (4 * (64 + 16) + 4 * 64) / 9e8;
  const double with = shape_of({1, 2, true}, false).compute_s,
               without = shape_of({1, 2, true}, true).compute_s;
  CHECK(with - without == Approx(exchange).epsilon(1e-9));
}

}  // namespace moelab::parallel_serving_test
