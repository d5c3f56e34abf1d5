// SimGrid against `fast` where experts and KV cache are paged: equal where nothing is shared, slower where
// the link is, and by how much.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/results/result_transfer.hpp"
#include "sim/serving/expert_load.hpp"
#include "sim/serving/paged_resources.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/sim/alone.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/serving_checks.hpp"
#include "tests/sim/window_cases.hpp"

namespace moelab::paged_simgrid_test {

using namespace moelab::test;

namespace {

RunResult run_simgrid(const SmallRun& run) {
  RunOptions options;
  options.executor = ExecutorKind::simgrid;
  return unpack_result(engine::run_in_simgrid_child(
      [&] { return pack_result(run_system(run.scenario, run.system(), run.trace, options)); }));
}

bool shares_link(const SmallRun& run) {
  return run.scenario.tensor_parallel > 1;
}

}  // namespace

TEST_CASE("simgrid: paged serving agrees with fast where nothing is shared") {
  int ran = 0;
  for (std::uint64_t seed = 1; ran < 40; ++seed) {
    const SmallRun run = random_paged_run(seed, false);
    if (shares_link(run) || !can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics fast = run.run().metrics, simgrid = run_simgrid(run).metrics;
    CHECK(simgrid.wall_s == Approx(fast.wall_s).epsilon(1e-6));
    CHECK(simgrid.serving.steps == fast.serving.steps);
    CHECK(simgrid.serving.loaded_bytes == fast.serving.loaded_bytes);
    CHECK(simgrid.serving.swap_in_bytes == fast.serving.swap_in_bytes);
    for (std::size_t i = 0; i < kCauses; ++i)
      CHECK(simgrid.stall_s[i] == Approx(fast.stall_s[i]).epsilon(1e-6).margin(1e-9));
  }
}

// The CPU that plays the GPU is a factor f slower until the read ends, at R: of what takes W alone it has
// done R / f by then. The copy that follows costs it nothing here, and ends before it.
TEST_CASE("simgrid: a played GPU computes slower while the SSD is read, as under fast") {
  constexpr double kFactor = 1.75, kSeconds = 0.02;
  DeviceProfile device = small_discrete_device();
  device.gpu->stand_in = true;
  device.cpu.sharing = {{1, 1}, ""};
  device.cpu.slowdown_while_reading = {kFactor, ""};
  const TimingModel timing(device);
  const Bytes bytes(1e6);
  const double read = timing.ssd_read(bytes).value();
  REQUIRE(read + timing.load(bytes).value() < kSeconds);
  const SmallRun run = paged_run(small_model({}), {"resident"});
  const PagedPlan plan = plan_paged(run.scenario, run.system(), served_requests(run.scenario, run.trace));
  const auto computed = [&](engine::Engine& engine) {
    const PagedResources resources = add_paged_resources(engine, timing, plan);
    const PagedGpu& gpu = resources.gpus.front();
    LabelledGraph out;
    const engine::OpIndex kernel = out.graph.add(out.graph.lane(gpu.compute), kSeconds);
    out.labels.push_back({OpKind::dense});
    out.graph.share(kernel, gpu.cpu, kSeconds);
    add_expert_load(out, {.bytes = bytes, .from_ssd = true, .tensor = kWholeExpert}, resources, 0, timing, 1,
                    engine::kNoOp);
    test::run_alone(engine, out.graph);
    return out.graph.end(kernel);
  };
  const double expected = read + kSeconds - read / kFactor;
  CHECK(computed(*engine::make_fast_engine()) == Approx(expected).epsilon(1e-12));
  const std::string text = engine::run_in_simgrid_child(
      [&] { return std::to_string(computed(*engine::make_simgrid_engine()) * 1e6); });
  CHECK(std::stod(text) == Approx(1e6 * expected).epsilon(1e-6));
}

TEST_CASE("simgrid: windows with what stands beside them agree with fast where nothing is shared") {
  int ran = 0;
  for (std::uint64_t seed = 1; ran < 40; seed += 2) {  // odd ones: without codecs
    const std::optional<SmallRun> run = window_that_runs(seed);
    if (!run || shares_link(*run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics fast = run->run().metrics, simgrid = run_simgrid(*run).metrics;
    CHECK(simgrid.wall_s == Approx(fast.wall_s).epsilon(1e-6));
    CHECK(simgrid.hits == fast.hits);
    CHECK(simgrid.routing.substituted == fast.routing.substituted);
    CHECK(simgrid.prefetch.used == fast.prefetch.used);
    CHECK(simgrid.prefetch.unused == fast.prefetch.unused);
    CHECK(simgrid.serving.loaded_bytes == fast.serving.loaded_bytes);
    CHECK(simgrid.serving.ssd_bytes == fast.serving.ssd_bytes);
    for (std::size_t i = 0; i < kCauses; ++i)
      CHECK(simgrid.stall_s[i] == Approx(fast.stall_s[i]).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("simgrid: GPUs that differ, with their weights there, take as long as in fast") {
  int ran = 0;
  for (std::uint64_t seed = 1; ran < 40; ++seed) {
    const std::uint32_t gpus = seed % 2 == 0 ? 2 : 4;
    const bool data = seed % 3 > 0, experts = !data || seed % 5 > 0;
    const Division division{data ? 1 : gpus, data ? gpus : 1, experts};
    SmallRun run = random_paged_run(seed, false, division);
    paging_of(run).backends = {"resident"};
    // Faster than what small_node() exchanges over it.
    run.scenario.device.gpu->own->link.to_device.value = Curve::affine(3e-6, 4e9);
    give_blocks(run, 40);
    if (run.scenario.expert_ranks() > run.trace.experts() || !can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics fast = run.run().metrics, simgrid = run_simgrid(run).metrics;
    CHECK(simgrid.wall_s == Approx(fast.wall_s).epsilon(1e-6));
    CHECK(simgrid.serving.steps == fast.serving.steps);
    // Of two GPUs that end at once either may be on the critical path, but for what all do together.
    for (const Cause cause : {Cause::exchange, Cause::all_reduce}) {
      const auto c = static_cast<std::size_t>(cause);
      CHECK(simgrid.stall_s[c] == Approx(fast.stall_s[c]).epsilon(1e-6).margin(1e-9));
    }
  }
}

TEST_CASE("simgrid: what a ring of GPUs moves to sum up, step by step") {
  constexpr double kBytes = 5040;  // each GPU's; divisible by all of 1 to 10
  for (int ranks = 1; ranks <= 10; ++ranks) {
    double received =
        0;  // by each: its neighbour's part of the sums so far, then the parts that are complete
    for (int pass = 0; pass < 2; ++pass)
      for (int step = 1; step < ranks; ++step) received += kBytes / ranks;
    CHECK(ring_bytes(ranks, kBytes) == Approx(received).epsilon(1e-14));
  }
}

TEST_CASE("simgrid: all-reduces and weights on one link take longer, by what all-reduces move at most") {
  int ran = 0, longer = 0;
  for (std::uint64_t seed = 1; ran < 40; ++seed) {
    SmallRun run = random_paged_run(seed, false);
    run.scenario.workload.log.front().arrival_s = 0;
    for (RequestRecord& q : run.scenario.workload.log) q.arrival_s = 0;  // else steps differ, not only times
    if (!shares_link(run) || !can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics fast = run.run().metrics, simgrid = run_simgrid(run).metrics;
    CHECK(simgrid.serving.steps == fast.serving.steps);
    CHECK(simgrid.wall_s >= fast.wall_s * (1 - 1e-6));
    // Two all-reduces of each layer for each row: at most what they bring in over the link's rate.
    const Scenario& s = run.scenario;
    const double ranks = s.tensor_parallel;
    const double row = 2.0 * s.model.hidden * 2 * (ranks - 1) / ranks;
    const double bytes =
        static_cast<double>(fast.serving.rows) * static_cast<double>(s.model.layers.size()) * 2 * row;
    const double latency =
        3e-6;  // of the link, in which nothing moves: SimGrid spreads the bytes over it too
    const double loads = static_cast<double>(fast.serving.steps * s.model.layers.size()) * 2;
    CHECK(simgrid.wall_s - fast.wall_s <= bytes / 4e8 + loads * latency + 1e-6 * fast.wall_s);
    if (simgrid.wall_s > fast.wall_s * (1 + 1e-6)) ++longer;
  }
  CHECK(longer > 5);
}

TEST_CASE("simgrid: decoding and computing share the memory's bandwidth otherwise than in fast") {
  // While both run, memory is as busy in either: `fast` stretches both by 1 + decode traffic / bandwidth,
  // SimGrid gives decoding up to half of the bandwidth (max-min), which is no less. Alone a kernel uses all
  // of it and decoding a part, so that SimGrid, in which less decoding is left over, is no later; and earlier
  // at most by what `fast` stretches decoding by, which is less than decoding itself.
  int ran = 0, earlier = 0;
  for (std::uint64_t seed = 1; ran < 40; ++seed) {
    SmallRun run = random_paged_run(seed, true);
    for (RequestRecord& q : run.scenario.workload.log) q.arrival_s = 0;
    run.scenario.tensor_parallel = 1;  // whatever part of a model it is: no all-reduces
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    ++ran;
    const Metrics fast = run.run().metrics, simgrid = run_simgrid(run).metrics;
    CHECK(simgrid.serving.decoded_bytes == fast.serving.decoded_bytes);
    double slowest = 1e15;
    for (const std::string& backend : run.system().paging->backends)
      if (const auto codec = run.scenario.device.gpu->codecs.find(backend);
          codec != run.scenario.device.gpu->codecs.end())
        slowest = std::min(slowest, codec->second.rate.value.value());
    const double decoding = fast.serving.decoded_bytes / slowest;
    CHECK(simgrid.wall_s <= fast.wall_s * (1 + 1e-6));
    CHECK(simgrid.wall_s >= fast.wall_s * (1 - 1e-6) - decoding);
    if (simgrid.wall_s < fast.wall_s * (1 - 1e-3)) ++earlier;
  }
  CHECK(earlier > 5);
}

}  // namespace moelab::paged_simgrid_test
