// Blocks of the KV cache over the link: what is copied, what there is room for, and runs that swap.
#include "hw/executor/kv_swaps.hpp"

#include <catch2/catch.hpp>

#include "hw/executor/stand_in_device.hpp"
#include "sim/serving/kv_plan.hpp"
#include "tests/hw/linked_comparison.hpp"

namespace moelab::kv_swaps_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr ExpertShape kShape{32, 48, 3};

/// Counts bytes each way, and checks that both ends of a copy are as long.
class WatchedLink final : public CpuDevice {
 public:
  WatchedLink() : CpuDevice(kShape, 1 << 12) {}
  MemorySource* memory() override { return &memory_; }
  void store(std::span<const std::uint16_t> from, std::span<std::byte> to) override {
    CHECK(from.size_bytes() == to.size());
    CpuDevice::store(from, to);
    out += to.size();
  }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override {
    CHECK(from.size() == to.size_bytes());
    CpuDevice::load(from, to);
    in += from.size();
  }
  std::uint64_t out = 0, in = 0;

 private:
  HostMemory memory_;
};

/// Six requests of which about two have room, on a GPU that the CPU plays.
SmallRun swapping_run(std::uint64_t seed, double swap_blocks) {
  Random random(seed);
  SmallRun run;
  Scenario& s = run.scenario;
  s.name = "swapping";
  s.model = small_model({.moe_layers = 2, .experts = 6, .top_k = 2});
  s.device = stand_in_device();
  s.workload.batch = 4;
  s.workload.trace_file = "made up";
  SystemConfig system = plain_system("swapping");
  system.cache.name = "lru";
  system.batching = BatchingConfig{{"continuous", {{"swap", 1}, {"chunked", from(random, 0, 1)}}}, 32};
  system.kv = {.block_tokens = 2,
               .swap_space = swap_blocks * 2 * kv_bytes_per_token(s.model),
               .pressure = {"requests-yield", {}}};
  s.systems.push_back(system);
  run.trace = random_trace(random, s.model, std::vector<Lengths>(6, {4, 11}));
  give_room(run, 2.5);
  return run;
}

}  // namespace

TEST_CASE("KV swaps: every byte goes over the link, in pieces that end with the regions") {
  WatchedLink gpu;
  KvSwaps swaps(gpu, {.gpu_bytes = 1000, .host_bytes = 300});
  std::uint64_t held = 0, out = 0, in = 0;
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t bytes = 2 * (1 + random.below(60));
    if (held + bytes <= 300) {
      swaps.begin_out(static_cast<double>(bytes));
      swaps.out(static_cast<double>(bytes));
      held += bytes;
      out += bytes;
    } else {
      const std::uint64_t back = std::min(bytes, held);
      swaps.begin_in(static_cast<double>(back));
      swaps.in(static_cast<double>(back));
      held -= back;
      in += back;
    }
    CHECK(swaps.in_host() == static_cast<double>(held));
  }
  CHECK((gpu.out == out && gpu.in == in));
  CHECK((swaps.bytes_out() == out && swaps.bytes_in() == in));
  CHECK(out > 1000);  // more than once around
}

TEST_CASE("KV swaps: more than there is room for, or than is there, is an error") {
  StandInDevice gpu(kShape, 1 << 12);
  KvSwaps swaps(gpu, {.gpu_bytes = 100, .host_bytes = 150});
  CHECK_THROWS_WITH(swaps.begin_out(102), Contains("no room"));
  swaps.begin_out(100);
  CHECK_THROWS_WITH(swaps.begin_out(52), Contains("no room"));
  CHECK_THROWS_WITH(swaps.begin_in(102), Contains("does not hold"));
  swaps.begin_in(100);
  CHECK_THROWS_WITH(swaps.begin_in(2), Contains("does not hold"));
  CpuDevice one_memory(kShape, 1 << 12);
  CHECK_THROWS_AS(KvSwaps(one_memory, {100, 100}), std::invalid_argument);
}

TEST_CASE("KV swaps: blocks of a format whose bytes are no whole numbers come back as they went") {
  StandInDevice gpu(kShape, 1 << 12);
  KvSwaps swaps(gpu, {.gpu_bytes = 1000, .host_bytes = 403});
  swaps.begin_out(2 * 100.5);
  swaps.out(2 * 100.5);
  swaps.begin_out(2 * 100.5);
  swaps.out(2 * 100.5);
  for (int i = 0; i < 4; ++i) {
    swaps.begin_in(100.5);
    swaps.in(100.5);
  }
  CHECK(swaps.in_host() == 0);
  CHECK(swaps.bytes_out() == 402);
}

TEST_CASE("KV swaps: requests give way on hardware as in the simulator, and their blocks cross the link") {
  const RunStore files(swapping_run(1, 8).scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    for (const double swap_blocks : {0.0, 5.0, 100.0}) {
      INFO("seed " << seed << ", " << swap_blocks << " blocks");
      const SmallRun run = swapping_run(seed, swap_blocks);
      StandInDevice gpu(kShape, 1 << 12);
      Decisions did, predicted;
      HardwareRun hardware{files};
      hardware.device = &gpu;
      hardware.host_experts = &host;
      hardware.observer = &did;
      hardware.swaps = {1 << 20, static_cast<std::uint64_t>(swap_blocks) * 1024};
      const RunResult measured = hardware.run(run);
      std::vector<RecordingMirror::Event> events;
      const RunResult fast = simulated(run, predicted, {}, events);

      const ServingCounts &m = measured.metrics.serving, &f = fast.metrics.serving;
      CHECK((m.steps == f.steps && m.rows == f.rows && m.recomputed == f.recomputed));
      CHECK((m.swapped_out == f.swapped_out && m.dropped == f.dropped && m.most_blocks == f.most_blocks));
      CHECK(measured.metrics.hits == fast.metrics.hits);
      CHECK(measured.metrics.bytes == fast.metrics.bytes);
      CHECK(did.graphs == predicted.graphs);
      CHECK(hardware.events == events);
      // Each request runs its prompt and all its tokens but the last, and what is computed again.
      CHECK(m.rows == 6 * 15 + m.recomputed);
      CHECK(measured.metrics.end_to_end_s.size() == 6);
      CHECK(m.swapped_out + m.dropped > 0);
      CHECK((m.swapped_out > 0) == (swap_blocks > 0));
      CHECK((m.dropped > 0) == (swap_blocks < 100));
      CHECK(static_cast<double>(hardware.swapped_out) == m.swap_out_bytes);
      CHECK(static_cast<double>(hardware.swapped_in) == m.swap_in_bytes);
    }
}

TEST_CASE("KV swaps: a machine that was given no room for them says so") {
  const SmallRun run = swapping_run(1, 100);
  const RunStore files(run.scenario.model, "none", 1);
  const ChunkStoreReader store(files.path);
  const HostExperts host(store);
  StandInDevice gpu(kShape, 1 << 12);
  HardwareRun hardware{files};
  hardware.device = &gpu;
  hardware.host_experts = &host;
  CHECK_THROWS_WITH(hardware.run(run), Contains("KV cache"));
}

}  // namespace moelab::kv_swaps_test
