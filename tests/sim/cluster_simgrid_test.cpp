// SimGrid against `fast` on clusters: the same where every flow has one link that limits it.
#include <catch2/catch.hpp>
#include <sstream>

#include "sim/cluster/cluster_resources.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/serving/dense_times.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/alone.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_simgrid_test {

using namespace moelab::test;

namespace {

RunResult run_simgrid(const Scenario& s) {
  return unpack_result(
      engine::run_in_simgrid_child([&] { return pack_result(run_cluster(s, ExecutorKind::simgrid)); }));
}

}  // namespace

TEST_CASE("simgrid: clusters agree with fast on a mesh, and on a star that only senders limit") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    Scenario s = seed % 4 < 2 ? random_cluster(seed) : random_mixed_cluster(seed);
    INFO("seed " << seed);
    // Decisions of when to migrate hang on times; without them both do the same.
    placed_of(s).migration.reset();
    if (seed % 2 == 0)
      s.cluster->profile.network.topology = ClusterNetwork::Topology::mesh;
    else
      for (ClusterServer& server : s.cluster->profile.servers) server.in = BytesPerSecond(1e12);
    const RunResult fast = run_cluster(s), simgrid = run_simgrid(s);
    REQUIRE(simgrid.metrics.end_to_end_s.size() == fast.metrics.end_to_end_s.size());
    for (std::size_t i = 0; i < fast.metrics.end_to_end_s.size(); ++i)
      CHECK(simgrid.metrics.end_to_end_s[i] == Approx(fast.metrics.end_to_end_s[i]).epsilon(1e-6));
    for (std::size_t i = 0; i < fast.cluster.servers.size(); ++i) {
      CHECK(simgrid.cluster.servers[i].network_bytes == fast.cluster.servers[i].network_bytes);
      CHECK(simgrid.cluster.servers[i].remote_calls == fast.cluster.servers[i].remote_calls);
    }
  }
}

TEST_CASE("simgrid: servers that load what they lack take as long as under fast") {
  std::int64_t loads = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(8u, 2u); ++seed) {
    INFO("seed " << seed);
    Scenario s = random_cluster(seed);
    let_load(s, PlacedExecution::load);
    placed_of(s).migration.reset();
    const RunResult fast = run_cluster(s), simgrid = run_simgrid(s);
    REQUIRE(simgrid.metrics.end_to_end_s.size() == fast.metrics.end_to_end_s.size());
    for (std::size_t i = 0; i < fast.metrics.end_to_end_s.size(); ++i)
      CHECK(simgrid.metrics.end_to_end_s[i] == Approx(fast.metrics.end_to_end_s[i]).epsilon(1e-6));
    for (std::size_t i = 0; i < fast.cluster.servers.size(); ++i) {
      CHECK(simgrid.cluster.servers[i].loaded_experts == fast.cluster.servers[i].loaded_experts);
      loads += fast.cluster.servers[i].loaded_experts;
    }
  }
  CHECK(loads > 0);
}

// A kernel moves its bytes no faster than the controller of the memory that it works in.
TEST_CASE(
    "simgrid: kernels of a server with one memory share its controller, those of a discrete GPU do not") {
  ModelShape shape;
  shape.experts = shape.top_k = 2;
  shape.shared_width = 48;
  for (const MachineKind kind : {MachineKind::shared_memory, MachineKind::discrete_gpu}) {
    Scenario s = cluster_scenario(small_model(shape), {1}, "uniform");
    s.cluster->tasks = {{"task", {1, 1}, {1, 1}, "task"}};
    s.cluster->loads[0].phases = {{1, {1}}};
    DeviceProfile device = machine_of(kind);
    const BytesPerSecond controller(1e8);  // the GPU streams 1 GB/s
    device.memory.controller = {controller, ""};
    set_machine(s, 0, device);
    const TimingModel timing(device);
    DenseTimes dense(s.model, timing);
    Pass pass;
    pass.prompt = true;
    pass.tokens = pass.prompt_tokens = pass.produces = 1;
    pass.runs = {{.prompt = true, .first = 1}};
    dense.begin(pass);
    const auto stretched = [&](double seconds, double bytes) {
      return timing.is_discrete() ? seconds : std::max(seconds, bytes / controller.value());
    };
    double expected = stretched(dense.head().seconds, dense.head().bytes), alone = dense.head().seconds;
    for (std::size_t layer = 0; layer < s.model.layers.size(); ++layer) {
      const KernelTime first = dense.dense(layer), shared = dense.shared(layer);
      const double experts = shared.seconds + timing.grouped_experts(s.model, 2, 2).value();
      expected += stretched(first.seconds, first.bytes) +
                  stretched(experts, shared.bytes + 2 * expert_bytes(s.model).value());
      alone += first.seconds + experts;
    }
    CHECK((expected > 1.5 * alone) == (kind == MachineKind::shared_memory));
    REQUIRE(run_simgrid(s).metrics.end_to_end_s.size() == 1);
    CHECK(run_simgrid(s).metrics.end_to_end_s.front() == Approx(expected).epsilon(1e-9));
    CHECK(run_cluster(s).metrics.end_to_end_s.front() == Approx(alone).epsilon(1e-9));
  }
}

namespace {

/// Ends of what a server's CPU computes for `work` seconds and of an expert's read from its SSD, both from
/// time 0.
std::pair<double, double> computed_and_read(engine::Engine& engine, const Scenario& s, double work) {
  const ClusterResources resources(engine, s.cluster->profile);
  const ServerNode& node = resources.servers.front();
  LabelledGraph out;
  const engine::OpIndex kernel = out.graph.add(out.graph.lane(resources.gpus.front().compute), work);
  out.labels.push_back({OpKind::dense});
  node.share_kernel(out.graph, kernel, work, 0);
  const StoreLoad load{expert_bytes(s.model), true, {.kind = OpKind::migrate}, {.kind = OpKind::migrate}};
  const engine::OpIndex read = add_store_load(out, load, node, resources.gpus.front(), engine::kNoOp);
  test::run_alone(engine, out.graph);
  return {out.graph.end(kernel), out.graph.end(read)};
}

}  // namespace

// The CPU is a factor f slower until the read ends, at R: of its work W it has done R / f by then, and the
// rest takes as long as alone.
TEST_CASE("simgrid: a server's CPU computes slower while an expert is read from its SSD, as under fast") {
  constexpr double kFactor = 1.75, kSeconds = 0.01;
  DeviceProfile device = machine_of(MachineKind::cpu_alone);
  device.cpu.sharing = {{1, 1.25}, ""};
  device.cpu.slowdown_while_reading = {kFactor, ""};
  for (const bool controller : {false, true}) {
    if (controller) device.memory.controller = {BytesPerSecond(1e12), ""};  // nothing notices it
    Scenario s = cluster_scenario(small_model({}), {1}, "uniform");
    set_machine(s, 0, device);
    const double read = TimingModel(device).ssd_read(expert_bytes(s.model)).value();
    REQUIRE(read < kSeconds);
    const double expected = read + kSeconds - read / kFactor;
    const auto fast = computed_and_read(*engine::make_fast_engine(), s, kSeconds);
    CHECK(fast.first == Approx(expected).epsilon(1e-12));
    CHECK(fast.second == Approx(read).epsilon(1e-12));
    const std::string text = engine::run_in_simgrid_child([&] {
      const auto ends = computed_and_read(*engine::make_simgrid_engine(), s, kSeconds);
      return std::to_string(ends.first * 1e6) + " " + std::to_string(ends.second * 1e6);
    });
    std::istringstream in(text);
    double computed_us = 0, read_us = 0;
    in >> computed_us >> read_us;
    CHECK(computed_us == Approx(1e6 * expected).epsilon(1e-6));
    CHECK(read_us == Approx(1e6 * read).epsilon(1e-6));
  }
}

}  // namespace moelab::cluster_simgrid_test
