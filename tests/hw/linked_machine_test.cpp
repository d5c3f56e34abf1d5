// Experts in the host's memory, a GPU beside that the CPU plays: what is loaded, computed on either side and
// substituted is what the simulator says, with every tensor the right one, in planned memory.
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <set>

#include "hw/executor/expert_machine.hpp"
#include "hw/executor/stand_in_device.hpp"
#include "models/input_error.hpp"
#include "tests/hw/hardware_runs.hpp"
#include "tests/hw/linked_runs.hpp"

using namespace moelab;
using namespace moelab::testing;
using Catch::Matchers::Contains;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRandomRuns = 60;
#else
constexpr std::uint64_t kRandomRuns = 300;
#endif

ExpertShape shape_of(const Architecture& model) {
  return {static_cast<std::size_t>(model.hidden), static_cast<std::size_t>(model.moe().width),
          model.moe().matrices};
}

/// What was decided, graph by graph: which experts were loaded, computed by whom, for how many tokens.
class Decisions final : public GraphObserver {
 public:
  using Operation = std::tuple<OpKind, Tier, std::uint32_t, std::uint32_t, bool>;
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override {
    if (layer < 0) return;  // of fetches
    auto& [at_pass, at_layer, operations] = graphs.emplace_back(pass, layer, std::vector<Operation>());
    for (const OpLabel& label : graph.labels) {
      operations.emplace_back(label.kind, label.tier, label.expert, label.tokens, label.low_score);
      kinds.insert(label.kind);
    }
    for (engine::OpIndex op = 0; op < graph.graph.size(); ++op)
      if (graph.labels[op].tier == Tier::host && graph.labels[op].tensor == 0)
        loaded_experts += graph.graph.was_started(op) ? 1 : 0;
  }
  std::vector<std::tuple<std::uint64_t, std::int32_t, std::vector<Operation>>> graphs;
  std::set<OpKind> kinds;
  std::uint64_t loaded_experts = 0;
};

/// What a policy heard of loads, to be heard again.
class Heard {
 public:
  LoadWitness keep() {
    return [this](double seconds) { return seconds_.emplace_back(seconds); };
  }
  LoadWitness tell() {
    return [this](double) {
      REQUIRE(told_ < seconds_.size());
      return seconds_[told_++];
    };
  }
  bool all_told() const { return told_ == seconds_.size(); }

 private:
  std::deque<double> seconds_;
  std::size_t told_ = 0;
};

RunResult simulated(const SmallRun& run, Decisions& decisions, LoadWitness witness,
                    std::vector<RecordingMirror::Event>& events) {
  RecordingMirror mirror;
  RunOptions options;
  options.observer = [&](const SystemConfig&) { return &decisions; };
  options.witness = std::move(witness);
  options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
    return {engine::make_fast_engine(), &mirror};
  };
  const RunResult result = run_system(run.scenario, run.system(), run.trace, options);
  events = mirror.events;
  return result;
}

void check_same(const RoutingCounts& a, const RoutingCounts& b) {
  CHECK(a.substituted == b.substituted);
  CHECK(a.mass_moved == b.mass_moved);
  CHECK(a.top_score == b.top_score);
  CHECK(a.top_score_misses == b.top_score_misses);
  CHECK(a.low_score_misses == b.low_score_misses);
}

/// A bit of the n-th tensor flips on the way over the link.
class FaultyLink final : public CpuDevice {
 public:
  FaultyLink(const ExpertShape& shape, int wrong)
      : CpuDevice(shape, 1 << 12), elements_(shape.hidden * shape.width), wrong_(wrong) {}
  MemorySource* memory() override { return &memory_; }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override {
    CpuDevice::load(from, to);
    if (to.size() != elements_) return;  // activations
    if (++loaded == wrong_) to[to.size() / 2] ^= 0x10;
  }
  std::atomic<int> loaded = 0;

 private:
  HostMemory memory_;
  std::size_t elements_;
  int wrong_;
};

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
    HardwareRun hardware{files};
    hardware.device = &gpu;
    hardware.host_experts = &host;
    Decisions did, predicted;
    Heard heard;
    hardware.observer = &did;
    hardware.witness = heard.keep();
    const RunResult measured = hardware.run(run);
    CHECK(static_cast<double>(host.bytes()) == measured.memory.host_experts.value());
    CHECK(static_cast<double>(hardware.bytes_read[static_cast<std::size_t>(Tier::host)]) ==
          measured.metrics.bytes[static_cast<std::size_t>(Tier::host)]);
    CHECK(hardware.bytes_read[static_cast<std::size_t>(Tier::ssd)] == 0);
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> in_use;
    for (const auto& event : hardware.events)
      if (event.what != 'k') CHECK((in_use[{event.layer, event.expert}] += event.what == 'u' ? 1 : -1) >= 0);
    for (const auto& [place, uses] : in_use) CHECK(uses == 0);
    if (system.prefetch.name != "none") continue;  // what is found then depends on time

    std::vector<RecordingMirror::Event> events;
    const RunResult fast = simulated(run, predicted, heard.tell(), events);
    CHECK(heard.all_told());
    CHECK(did.graphs == predicted.graphs);
    CHECK(hardware.events == events);
    CHECK(measured.metrics.hits == fast.metrics.hits);
    CHECK(measured.metrics.bytes == fast.metrics.bytes);
    CHECK(measured.metrics.execution.loaded == fast.metrics.execution.loaded);
    CHECK(measured.metrics.execution.on_cpu == fast.metrics.execution.on_cpu);
    check_same(measured.metrics.routing, fast.metrics.routing);
    ++checked;
    substituted += fast.metrics.routing.substituted;
    on_cpu += fast.metrics.execution.on_cpu;
    loaded += fast.metrics.execution.loaded;
    hits += fast.metrics.hits[index(State::F)];
  }
  CHECK(checked > kRandomRuns / 3);
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
