// Systems that hold experts from the start: on hardware they are there before the clock starts, the ones that
// the system's authors say, bit for bit, and all that follows is as in the simulator.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "hw/executor/stand_in_device.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"
#include "tests/hw/linked_comparison.hpp"
#include "tests/random_runs.hpp"

namespace moelab::preloaded_experts_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(240u, 45u);

using Place = std::pair<std::uint32_t, std::uint32_t>;  // layer, expert

SystemConfig shipped_system(const std::string& name) {
  const ConfigText config = find_config("systems", name);
  Problems problems;
  SystemConfig system = read_system(YamlDocument::from_text(config.name, config.text, problems));
  problems.throw_if_any();
  system.host_per_layer = system.host_per_pass = {};  // waiting, which decides nothing
  return system;
}

/// The profile of a GPU that loads an expert and computes it before the CPU would have: Fiddler then loads.
DeviceProfile fast_device() {
  DeviceProfile d = small_discrete_device();
  d.gpu->launch.value = Seconds(1e-7);
  d.gpu->own->bandwidth.value = BytesPerSecond(1e11);
  d.gpu->own->link.to_device.value = Curve::affine(1e-7, 1e11);
  return d;
}

/// A scenario of random_linked_run() with another system, room for half an expert more than `room` of all
/// layers together, and at times on another device.
SmallRun run_of(const std::string& system, std::uint64_t seed, std::uint32_t& room) {
  Random random(seed + 0x22);
  SmallRun run = random_linked_run(seed);
  Scenario& s = run.scenario;
  s.systems = {shipped_system(system)};
  s.workload.batch = from(random, 1, 3);
  if (coin(random)) s.device = fast_device();
  room = from(random, 0, run.trace.layers() * run.trace.experts());
  s.budget =
      Bytes(bytes_before_cache(s, run.system(), run.trace) + (room + 0.5) * expert_bytes(s.model).value());
  return run;
}

/// Layers whole: llama.cpp's N is the least for which the experts of the layers after the first N fit,
/// Accelerate fills the GPU layer by layer from the first.
std::set<Place> whole_layers(const RoutingTrace& trace, std::uint32_t room, bool last) {
  std::set<Place> held;
  for (std::uint32_t n = 0; n < room / trace.experts(); ++n)
    for (std::uint32_t e = 0; e < trace.experts(); ++e) held.emplace(last ? trace.layers() - 1 - n : n, e);
  return held;
}

/// Fiddler's: by falling number of uses in the profile, which is the trace where a scenario names one.
std::set<Place> most_used(const RoutingTrace& trace, std::uint32_t room) {
  std::map<Place, std::int64_t> uses;
  for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
    for (std::uint32_t e = 0; e < trace.experts(); ++e) uses[{layer, e}] = 0;
  for (std::uint64_t row = 0; row < trace.tokens(); ++row)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
      for (const std::uint16_t e : trace.experts_of(row, layer)) ++uses[{layer, e}];
  std::set<std::tuple<std::int64_t, Place>> order;
  for (const auto& [place, count] : uses) order.emplace(-count, place);
  std::set<Place> held;
  for (const auto& [count, place] : order)
    if (held.size() < room) held.insert(place);
  return held;
}

std::set<Place> expected(const std::string& system, const RoutingTrace& trace, std::uint32_t room) {
  return system == "fiddler" ? most_used(trace, room) : whole_layers(trace, room, system == "llama-cpp");
}

/// What was loaded ahead; each once, as a full tensor, and before anything else.
std::set<Place> preloaded(const std::vector<RecordingMirror::Event>& events) {
  std::set<Place> places;
  bool began = false;
  for (const RecordingMirror::Event& event : events) {
    began |= event.what != 'p';
    if (event.what != 'p') continue;
    CHECK_FALSE(began);
    CHECK(event.to == engine::Kept::full);
    CHECK(places.emplace(event.layer, event.expert).second);
  }
  return places;
}

/// Three layers of six experts, of which the GPU holds three each; the CPU computes no expert.
SmallRun held_run(const std::string& execution = "gpu-only") {
  SmallRun run = random_linked_run(1);
  Scenario& s = run.scenario;
  s.model = small_model({.moe_layers = 3, .experts = 6, .top_k = 2});
  SystemConfig system = plain_system("held");
  system.cache.name = "fixed-experts";
  system.execution.name = execution;
  s.systems = {system};
  s.workload.batch = 1;
  Random random(4);
  run.trace = scored_trace(random, s.model, {{1, 20}});
  s.budget = Bytes(bytes_before_cache(s, system, run.trace) +
                   3.5 * run.trace.layers() * expert_bytes(s.model).value());
  return run;
}

/// A link that takes its time for each tensor, and remembers when it was last asked for one.
class SlowLink final : public CpuDevice {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SlowLink(const ExpertShape& shape)
      : CpuDevice(shape, 1 << 12), elements_(shape.hidden * shape.width) {}
  MemorySource* memory() override { return &memory_; }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override {
    CpuDevice::load(from, to);
    if (to.size() != elements_) return;  // activations
    last = Clock::now();
    ++loaded;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Clock::time_point last;
  int loaded = 0;

 private:
  HostMemory memory_;
  std::size_t elements_;
};

}  // namespace

TEST_CASE(
    "preloaded experts: llama.cpp, Fiddler and Accelerate do on hardware what they do in the simulator") {
  const std::vector<std::string> systems = {"llama-cpp", "fiddler", "accelerate-host"};
  std::map<std::string, std::uint64_t> held, hits, loaded, on_cpu;
  for (std::uint64_t seed = 0; seed < kRandomRuns; ++seed) {
    const std::string& name = systems[seed % systems.size()];
    std::uint32_t room = 0;
    const SmallRun run = run_of(name, seed, room);
    INFO("seed " << seed << ": " << name << ", batch " << run.scenario.workload.batch);
    const RunStore files(run.scenario.model, "none", 1, seed);
    const ChunkStoreReader store(files.path);
    const HostExperts host(store);
    StandInDevice gpu(shape_of(run.scenario.model), 1 << 16);
    const LinkedPair pair = run_linked(run, files, host, gpu);
    REQUIRE(pair.fast);
    check_same_decisions(pair);
    const std::set<Place> there = preloaded(pair.events);
    CHECK(there == expected(name, run.trace, room));
    CHECK(static_cast<double>(pair.left_bytes) ==
          static_cast<double>(there.size()) * expert_bytes(run.scenario.model).value());
    held[name] += there.size();
    hits[name] += pair.fast->metrics.hits[index(State::F)];
    loaded[name] += pair.fast->metrics.execution.loaded;
    on_cpu[name] += pair.fast->metrics.execution.on_cpu;
  }
  for (const std::string& name : systems) {
    INFO(name);
    CHECK((held[name] > 0 && hits[name] > 0));
    CHECK((loaded[name] > 0) == (name != "llama-cpp"));
    CHECK((on_cpu[name] > 0) == (name != "accelerate-host"));
  }
}

TEST_CASE("preloaded experts: they lie in the memory that the plan gives the cache") {
  for (const ExecutionPolicyEntry& execution : execution_policies()) {
    const SmallRun run = held_run(std::string(execution.info.name));
    INFO(execution.info.name);
    const RunStore files(run.scenario.model, "none", 1);
    const ChunkStoreReader store(files.path);
    const HostExperts host(store);
    StandInDevice gpu(shape_of(run.scenario.model), 1 << 16);
    const MemoryPlan plan = run.run().memory;
    // A prompt of one token uses no more experts than a decode step: beyond the limit the run would end.
    const auto limit = static_cast<std::uint64_t>((plan.expert_cache + plan.staging).value());
    const LinkedPair pair = run_linked(run, files, host, gpu, limit);
    check_same_decisions(pair);
    CHECK(static_cast<double>(pair.left_bytes) == 9 * expert_bytes(run.scenario.model).value());
  }
}

TEST_CASE("preloaded experts: one that was loaded wrongly is never computed with") {
  const SmallRun run = held_run();
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  for (int wrong = 1; wrong <= 27; ++wrong) {  // of 9 experts, all of which the trace uses
    FaultyLink gpu(shape_of(run.scenario.model), wrong);
    HardwareRun hardware{files};
    hardware.device = &gpu;
    hardware.host_experts = &host;
    CHECK_THROWS_WITH(hardware.run(run), Contains("expert") && Contains("checksum"));
    CHECK(gpu.loaded >= 27);
    CHECK(hardware.left_wrong >= 1);  // beside what was on its way when the run ended
    FaultyLink unseen(shape_of(run.scenario.model), wrong);
    hardware.device = &unseen;
    hardware.verify = false;  // then no checksum is compared
    CHECK_NOTHROW(hardware.run(run));
    CHECK(hardware.left_wrong == 1);
  }
}

TEST_CASE("preloaded experts: loading them takes no time of the run's") {
  const SmallRun run = held_run("cpu-only");
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  SlowLink gpu(shape_of(run.scenario.model));
  HardwareRun hardware{files};
  hardware.device = &gpu;
  hardware.host_experts = &host;
  const RunResult result = hardware.run(run);
  REQUIRE(gpu.loaded == 27);  // the CPU computes what is missing
  CHECK(result.metrics.wall_s > 0);
  // The clock did not run before the last of them was asked for.
  CHECK(std::chrono::duration<double>(SlowLink::Clock::now() - gpu.last).count() >= result.metrics.wall_s);
}

}  // namespace moelab::preloaded_experts_test
