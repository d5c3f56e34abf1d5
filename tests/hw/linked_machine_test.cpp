// Experts in the host's memory, a GPU beside that the CPU plays: what is loaded, computed on either side and
// substituted is what the simulator says, with every tensor the right one, in planned memory.
#include <catch2/catch.hpp>

#include "hw/executor/expert_machine.hpp"
#include "hw/executor/stand_in_device.hpp"
#include "models/input_error.hpp"
#include "tests/hw/hardware_runs.hpp"
#include "tests/hw/linked_comparison.hpp"
#include "tests/random_runs.hpp"

namespace moelab::linked_machine_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(300u, 30u);

SmallRun smoe_run() {
  SmallRun run = random_linked_run(1);
  Scenario& s = run.scenario;
  s.model = small_model({.moe_layers = 3, .experts = 6, .top_k = 2});
  SystemConfig system = plain_system("smoe");
  system.routing = {"smoe", {{"alpha", 0.5}}};
  system.cache.name = "score-average";
  system.execution.name = "cpu-assisted";
  s.systems = {system};
  s.workload.batch = 1;
  Random random(4);
  run.trace = scored_trace(random, s.model, {{1, 20}});
  s.budget = Bytes(bytes_before_cache(s, system, run.trace) +
                   2.5 * run.trace.layers() * expert_bytes(s.model).value());
  return run;
}

}  // namespace

TEST_CASE("linked experts: random scenarios decide on hardware as in the simulator") {
  std::uint64_t checked = 0, substituted = 0, on_cpu = 0, loaded = 0, hits = 0;
  for (std::uint64_t seed = 0; seed < kRandomRuns; ++seed) {
    const SmallRun run = random_linked_run(seed);
    const SystemConfig& system = run.system();
    INFO("seed " << seed << ": " << system.routing.name << ", " << system.cache.name << ", "
                 << system.execution.name << ", " << system.prefetch.name);
    const RunStore files(run.scenario.model, "none", 1, seed);
    const ChunkStoreReader store(files.path);
    const HostExperts host(store);
    StandInDevice gpu(shape_of(run.scenario.model), 1 << 16);
    const LinkedPair pair = run_linked(run, files, host, gpu);
    // The kit's host has all experts. The plan counts them without those that a cache that never changes
    // holds, which the host needs no more.
    const Bytes planned = pair.measured.memory.host_experts, all(static_cast<double>(host.bytes()));
    CHECK((find_cache_policy(system.cache.name)->preloads ? planned <= all : planned == all));
    if (!pair.fast) continue;
    check_same_decisions(pair);
    const Metrics& fast = pair.fast->metrics;
    ++checked;
    substituted += fast.routing.substituted;
    on_cpu += fast.execution.on_cpu;
    loaded += fast.execution.loaded;
    hits += fast.hits[index(State::F)];
  }
  CHECK(checked > kRandomRuns / moelab::test::random_runs(3u, 6u));  // of fewer runs half that share
  for (const std::uint64_t count : {substituted, on_cpu, loaded, hits}) CHECK(count > 0);
}

TEST_CASE("linked experts: memory of the GPU stays within the plan") {
  SmallRun run = smoe_run();
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  StandInDevice gpu(shape_of(run.scenario.model), 1 << 16);
  for (const ExecutionPolicyEntry& execution : execution_policies()) {
    run.scenario.systems.front().execution.name = execution.info.name;
    INFO(execution.info.name);
    const MemoryPlan plan = run.run().memory;
    HardwareRun hardware{files};
    hardware.device = &gpu;
    hardware.host_experts = &host;
    // A prompt of one token uses no more experts than a decode step.
    hardware.memory_limit = static_cast<std::uint64_t>((plan.expert_cache + plan.staging).value());
    Decisions decisions;
    hardware.observer = &decisions;
    hardware.run(run);
    CHECK(hardware.peak_bytes <= hardware.memory_limit);
    CHECK(static_cast<double>(hardware.left_bytes) <= plan.expert_cache.value());
    const bool to_cpu = decisions.kinds.contains(OpKind::cpu_execute);
    CHECK(to_cpu == decisions.kinds.contains(OpKind::send));
    if (execution.info.name == "cpu-only")
      CHECK(hardware.bytes_read[static_cast<std::size_t>(Tier::host)] == 0);
    if (execution.info.name == "gpu-only") CHECK_FALSE(to_cpu);
  }
}

TEST_CASE("linked experts: a transfer that goes wrong ends the run before the expert is computed") {
  const SmallRun run = smoe_run();
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  for (const int wrong : {1, 5, 12}) {
    FaultyLink gpu(shape_of(run.scenario.model), wrong);
    HardwareRun hardware{files};
    hardware.device = &gpu;
    hardware.host_experts = &host;
    CHECK_THROWS_WITH(hardware.run(run), Contains("expert") && Contains("checksum"));
    CHECK(gpu.loaded >= wrong);
  }
}

TEST_CASE("linked experts: a device without memory of its own is no discrete GPU") {
  const SmallRun run = smoe_run();
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  HardwareRun hardware{files};
  hardware.host_experts = &host;
  CHECK_THROWS_AS(hardware.run(run), std::invalid_argument);
}

TEST_CASE("host experts: every tensor as it was packed") {
  const SmallRun run = smoe_run();
  const RunStore files(run.scenario.model, "fixed3", 2);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  for (std::uint64_t ordinal = 0; ordinal < store.weights().tensors(); ++ordinal) {
    const TensorPlace place = place_of(store.weights(), ordinal);
    CHECK(checksum(host.tensor(place)) == store.tensor_checksum(place));
  }
}

}  // namespace moelab::linked_machine_test
