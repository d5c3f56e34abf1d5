// Machines that compute on the CPU: who shares it, a closed form, and both executors on random systems.
#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>

#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/small_systems.hpp"

namespace moelab::cpu_sharing_test {

using namespace moelab::test;
using engine::kNoCapacity;

namespace {

/// A layer of two experts with everything missing; the first one's parts come from the page cache.
void missing_experts(const ServerResources& resources, LabelledGraph& graph) {
  LayerInstance layer;
  layer.threads = 2;
  layer.shards = 2;
  layer.decompress_s = 3;
  layer.recover_s = 4;
  layer.experts = {{0, 2, State::M, 5}, {1, 2, State::M, 5}};
  LayerOrder order;
  make_schedule_policy("cache-affinity")->order(layer, order);
  const std::vector<ExpertReads> reads = {{1, 1, 0.5, Tier::page_cache, Tier::page_cache},
                                          {2, 2, 0.5, Tier::ssd, Tier::ssd}};
  const std::vector<std::uint32_t> tokens = {1, 1};
  LayerGraphBuilder(resources, false, 0.25, {10, 20, 30, 40, 50}).build(layer, order, reads, tokens, graph);
}

}  // namespace

TEST_CASE("cpu sharing: each operation shares what it uses, its hand-over apart") {
  for (const bool recovers : {false, true})
    for (const bool computes : {false, true})
      for (const bool sharing : {false, true})
        for (const bool controller : {false, true}) {
          ServerResources r{.host = 0, .io = 1, .decompress = 2, .recover = 3, .experts = 4, .dense = 5};
          r.ssd = 0;
          if (controller) r.memory = 1;
          if (sharing) r.cpu = 2;
          r.recovers_on_cpu = recovers;
          r.computes_on_cpu = computes;
          LabelledGraph g;
          missing_experts(r, g);
          std::array<int, 10> seen{};
          for (engine::OpIndex op = 0; op < g.graph.size(); ++op) {
            const OpLabel& label = g.labels[op];
            ++seen[static_cast<std::size_t>(label.kind)];
            const bool read = label.kind == OpKind::read_sm || label.kind == OpKind::read_e;
            const bool on_cpu =
                (read && label.tier == Tier::page_cache) || label.kind == OpKind::decompress ||
                (label.kind == OpKind::recover && recovers) || (label.kind == OpKind::execute && computes);
            const engine::CapacityId expected = label.tier == Tier::ssd ? r.ssd
                                                : on_cpu && sharing     ? r.cpu
                                                                        : r.memory;
            REQUIRE(g.graph.capacity(op) == expected);
            if (expected == kNoCapacity) continue;
            const double unshared = label.tier == Tier::ssd ? 0.25 + 0.5 : 0.25;  // hand-over, latency
            REQUIRE(g.graph.shared_seconds(op) == g.graph.seconds(op) - unshared);
            if (expected == r.cpu) REQUIRE(g.graph.shared_amount(op) == g.graph.shared_seconds(op));
          }
          for (const OpKind kind :
               {OpKind::read_sm, OpKind::read_e, OpKind::decompress, OpKind::recover, OpKind::execute})
            CHECK(seen[static_cast<std::size_t>(kind)] > 0);
        }
}

TEST_CASE("cpu sharing: threads, recovery and kernels on one CPU take the closed form") {
  // One expert of two tensors in state C, two chunks each, on two threads; factors 1, 1.5, 2 for 1, 2, 3 at
  // once. The first tensor's chunks take 1.5 d side by side. Then the second's run beside the first one's
  // recovery: 2 r until that is done and r of each chunk with it, 1.5 (d - r) for the rest. Recovery and
  // execution are alone: 1.5 d + 2 r + 1.5 (d - r) + r + x, and a hand-over before each of the four steps.
  // Shared experts of s run beside the first chunks: 2 s until they are done, so that those end 0.5 s later.
  const auto [dispatch, shared_width] =
      GENERATE(table<double, int>({{0.0, 0}, {3e-7, 0}, {0.0, 4}, {3e-7, 4}}));
  SmallRun run;
  run.scenario.name = "closed-form";
  run.scenario.model =
      small_model({.moe_layers = 1, .top_k = 1, .matrices = 2, .shared_width = shared_width});
  run.scenario.device = small_device();
  DeviceProfile& d = run.scenario.device;
  const double x = 1.5e-5, recover = 1e-6;
  d.gpu.reset();
  d.memory.bandwidth.reset();
  d.cpu.recover = {Curve({{0, recover}}), ""};
  d.cpu.peak = {FlopsPerSecond(1e9), ""};
  d.cpu.bandwidth = {BytesPerSecond(1e9), ""};
  d.cpu.dense_launch = {Seconds(0), ""};
  d.cpu.experts = {{32, 48, 2, {Curve({{1, x}}), ""}}};
  d.cpu.sharing = {{1, 1.5, 2}, ""};
  d.cpu.dispatch.value = Seconds(dispatch);
  SystemConfig system = plain_system();
  system.compressed = true;
  system.codec = "lz";
  system.shards = system.threads = 2;
  system.schedule.name = "cache-affinity";
  system.cache.name = "lru";
  system.kept_as = State::C;
  run.scenario.systems = {system};
  run.trace = steady_trace(run.scenario.model, {4, 2});
  give_room(run, 4);
  const RunResult r = run.run();
  REQUIRE(r.metrics.decode_hits[index(State::C)] == 2);

  const TimingModel timing(d);
  const double chunk = 32 * 48 / 2 / 4e8;  // half a plane at the codec's rate
  const Layer& moe = run.scenario.model.layers[0];
  const double shared = shared_width > 0 ? timing.kernel(dense_work(run.scenario.model, moe, 1)).value() : 0;
  REQUIRE(chunk > std::max(recover, shared));
  const double layer = 3 * chunk + 1.5 * recover + 0.5 * shared + x + 4 * dispatch;
  for (std::size_t row = 0; row < 2; ++row) {
    const double context = 4 + static_cast<double>(row) + 1;
    const double attention = timing.kernel(attention_work(run.scenario.model, moe, 1, context)).value();
    const double head = timing.kernel(head_work(run.scenario.model, 1)).value();
    CHECK(r.metrics.token_gaps_s[row] == Approx(attention + layer + head + 2 * dispatch).epsilon(1e-12));
  }
}

namespace {

/// When an operation is in flight that others see.
struct Stretch {
  double from, to;
  bool within(double time) const { return from <= time && time < to; }
};

/// What a run did that shares the CPU or reads the SSD.
struct Shared {
  std::vector<Stretch> cpu, reads;
  std::vector<DoneOp> timed;  // decompression, and joins where the CPU does them

  Shared(const Recorder& record, const TimingModel& timing, double dispatch) {
    for (const DoneGraph& graph : record.graphs)
      for (const DoneOp& op : graph.ops) {
        const OpKind kind = op.label.kind;
        const bool kernel = kind == OpKind::execute || kind == OpKind::dense ||
                            kind == OpKind::shared_expert || kind == OpKind::predict;
        const bool on_cpu = kind == OpKind::decompress || op.label.tier == Tier::page_cache ||
                            (kind == OpKind::recover && timing.recovers_on_cpu()) ||
                            (kernel && timing.computes_on_cpu());
        if (op.label.tier == Tier::ssd) reads.push_back({op.start, op.end});
        if (on_cpu) cpu.push_back({op.start + dispatch, op.end});
        if (on_cpu && (kind == OpKind::decompress || kind == OpKind::recover)) timed.push_back(op);
      }
  }
  static std::size_t count(const std::vector<Stretch>& all, double time) {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [=](const Stretch& s) { return s.within(time); }));
  }
  /// Seconds that the CPU's work of that time takes alone.
  double alone(Stretch span, const std::vector<double>& sharing, double while_reading) const {
    std::vector<double> changes = {span.from, span.to};
    for (const auto* const all : {&cpu, &reads})
      for (const Stretch& s : *all)
        for (const double time : {s.from, s.to})
          if (time > span.from && time < span.to) changes.push_back(time);
    std::sort(changes.begin(), changes.end());
    double seconds = 0;
    for (std::size_t i = 1; i < changes.size(); ++i) {
      const double middle = (changes[i - 1] + changes[i]) / 2;
      if (changes[i] <= changes[i - 1]) continue;
      const double factor = count(reads, middle) > 0 ? while_reading : 1;
      seconds += (changes[i] - changes[i - 1]) / (factor * sharing_factor(sharing, count(cpu, middle)));
    }
    return seconds;
  }
  static double sharing_factor(const std::vector<double>& sharing, std::size_t users) {
    if (users <= sharing.size()) return sharing[users - 1];
    return sharing.back() * static_cast<double>(users) / static_cast<double>(sharing.size());
  }
};

}  // namespace

TEST_CASE("cpu sharing: while the SSD is read each operation of the CPU gets on slower by that factor") {
  constexpr double kFactor = 1.75;
  std::size_t timed = 0, beside_reads = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(600u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_run(seed);
    DeviceProfile& d = run.scenario.device;
    SystemConfig& system = run.scenario.systems.front();
    if (!d.cpu.sharing || !system.compressed) continue;
    system.worker_reads = false;  // of a thread that reads, decompression begins without a hand-over
    d.cpu.slowdown_while_reading = {kFactor, ""};
    Recorder record;
    run.run(&record);
    const double dispatch = d.cpu.dispatch.value.value();
    const LayerInstance of_one = run.costs().timing;
    const Shared shared(record, TimingModel(d), dispatch);
    for (const DoneOp& op : shared.timed) {
      const Stretch span{op.start + dispatch, op.end};
      const double expected = op.label.kind == OpKind::decompress ? of_one.decompress_s : of_one.recover_s;
      REQUIRE(shared.alone(span, d.cpu.sharing->value, kFactor) == Approx(expected).epsilon(1e-6));
      ++timed;
      // Without the factor the same span would have been of more work.
      beside_reads += shared.alone(span, d.cpu.sharing->value, 1) > expected * (1 + 1e-6);
    }
  }
  CHECK(timed > 1000);
  CHECK(beside_reads > timed / 20);
}

namespace {

/// Everything takes `factor` times as long, so that SimGrid, which merges what is closer than a nanosecond,
/// sees small systems as they are.
void slow_down(DeviceProfile& d, double factor) {
  const auto curve = [&](Sourced<Curve>& c) {
    std::vector<CurvePoint> points = c.value.points();
    for (CurvePoint& p : points) p.seconds *= factor;
    c.value = Curve(std::move(points));
  };
  const auto rate = [&](auto& r) { r.value = r.value / factor; };
  const auto time = [&](Sourced<Seconds>& t) { t.value = t.value * factor; };
  curve(d.ssd.read);
  curve(d.page_cache.read);
  rate(std::get<Sourced<BytesPerSecond>>(d.codecs.at("lz").decompress));
  time(d.cpu.dispatch);
  if (d.memory.bandwidth) rate(*d.memory.bandwidth);
  if (d.gpu) {
    rate(d.gpu->peak);
    time(d.gpu->launch);
  }
  if (d.cpu.recover) curve(*d.cpu.recover);
  if (d.cpu.peak) rate(*d.cpu.peak);
  if (d.cpu.bandwidth) rate(*d.cpu.bandwidth);
  if (d.cpu.dense_launch) time(*d.cpu.dense_launch);
  for (CpuExperts& e : d.cpu.experts) curve(e.seconds);
}

/// Seconds of the passes: what decisions and times come to.
bool agree(const RunResult& a, const RunResult& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::max(x, y); };
  bool same = close(a.metrics.wall_s, b.metrics.wall_s) && a.metrics.hits == b.metrics.hits &&
              a.operations == b.operations && a.metrics.token_gaps_s.size() == b.metrics.token_gaps_s.size();
  for (std::size_t i = 0; same && i < a.metrics.token_gaps_s.size(); ++i)
    same = close(a.metrics.token_gaps_s[i], b.metrics.token_gaps_s[i]);
  return same;
}

}  // namespace

TEST_CASE("cpu sharing: fast and simgrid agree on random systems, and so does running every layer again") {
  constexpr std::uint64_t kRuns = moelab::test::random_runs(700u, 120u);  // many in a process of their own
  int shared = 0;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_run(seed);
    DeviceProfile& d = run.scenario.device;
    if (!d.cpu.sharing) continue;
    if (seed % 2 == 1) d.cpu.slowdown_while_reading = {1.75, ""};
    ++shared;
    Recorder record;  // an observer sees every layer run; without one, known layers are skipped
    CHECK(results_json({run.run()}) == results_json({run.run(&record)}));
    // Prefetches depend on which of two ends at an instant comes first; demand alone does not.
    run.scenario.systems.front().prefetch = {"none", {}};
    run.scenario.systems.front().prefetch_buffer = 0;
    slow_down(d, 1e4 * (1 + 1e-3 * static_cast<double>(seed)));
    const RunResult fast = run.run();
    const RunResult simgrid = unpack_result(engine::run_in_simgrid_child([&] {
      RunOptions options;
      options.executor = ExecutorKind::simgrid;
      return pack_result(run_system(run.scenario, run.system(), run.trace, options));
    }));
    CHECK(agree(fast, simgrid));
  }
  CHECK(shared > static_cast<int>(kRuns) / 8);
}

}  // namespace moelab::cpu_sharing_test
