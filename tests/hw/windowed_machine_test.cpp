// Experts that are paged, for real: pages that move, copies and decoding ahead of computing. What is brought,
// when, and what comes out is what the simulator and a run with everything resident say, in planned memory.
#include <catch2/catch.hpp>

#include "models/input_error.hpp"
#include "tests/hw/windowed_runs.hpp"
#include "tests/random_runs.hpp"

namespace moelab::windowed_machine_test {

using namespace moelab::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::uint64_t kRandomRuns = moelab::test::random_runs(2000u, 40u);

/// Experts of a layer on a backend, as the plan's split counts them.
std::uint64_t experts_on(const StorageSplit& split, const std::string& backend) {
  std::uint64_t count = 0;
  for (std::size_t k = 0; k < split.shape().backends.size(); ++k)
    if (split.shape().backends[k].name == backend) count += split.total(k);
  return count;
}

/// Of what comes into the window, in the steps that were run: every layer's streamed experts, once a step.
void check_bytes(const WindowedCase& c, const WindowedRun& hardware) {
  const std::vector<ServedRequest> requests = served_requests(c.run.scenario, c.run.trace);
  const StorageSplit split = plan_paged(c.run.scenario, c.run.system(), requests).split;
  const auto bytes = static_cast<std::uint64_t>(expert_bytes(c.run.scenario.model).value());
  const std::uint64_t steps = hardware.result.metrics.serving.steps;
  CHECK(hardware.streamed.loaded == steps * experts_on(split, "host") * bytes);
  CHECK(hardware.streamed.decoded == steps * experts_on(split, c.codec) * bytes);
}

/// What a system with everything in the GPU's memory computes for the same requests.
std::uint64_t resident_results(const WindowedCase& c) {
  SystemConfig resident = c.run.system();
  resident.paging = PagingConfig{};
  resident.paging->backends = {"resident"};
  const WindowedRun run = run_windowed(c.run, resident, c.store, c.host);
  CHECK((run.streamed == StreamedBytes{}));
  return run.results;
}

bool starts_at_once(const Scenario& s) {
  return std::ranges::all_of(s.workload.log, [](const RequestRecord& q) { return q.arrival_s == 0; });
}

/// A layout of three layers of four experts, of which the first of each layer stays on the GPU.
struct PagesAlone {
  Architecture model = small_model({.moe_layers = 3, .experts = 4, .top_k = 1});
  ExpertWeights weights = expert_weights_of(model);
  engine::StoredExperts stored{{"resident", "host"}, 4, {0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1}};
  CpuDevice gpu{{8, 8, 2}, 1 << 12};
  ExpertPages pages{gpu, weights, stored, {false, true}};
  std::vector<std::size_t> host = {1};

  void bring(std::uint32_t layer, std::uint32_t half) {
    for (std::uint16_t type = 0; type < ExpertPages::kTypes; ++type) {
      pages.remap(layer, type, half);
      pages.begin_write(layer, type, half, 1);
    }
    for (std::uint32_t expert = 1; expert < 4; ++expert)
      for (std::uint32_t kind = 0; kind < weights.kinds.size(); ++kind)
        std::ranges::fill(pages.tensor({layer, expert, kind}), value({layer, expert, kind}));
  }
  static std::uint16_t value(TensorPlace place) {
    return static_cast<std::uint16_t>(100 * place.layer + 10 * place.expert + place.kind);
  }
  bool holds(std::uint32_t layer) const {
    for (std::uint32_t expert = 1; expert < 4; ++expert)
      for (std::uint32_t kind = 0; kind < weights.kinds.size(); ++kind) {
        const TensorPlace place{layer, expert, kind};
        if (std::ranges::any_of(pages.tensor(place), [&](std::uint16_t v) { return v != value(place); }))
          return false;
      }
    return true;
  }
};

/// A bit of the n-th tensor flips on the way over the link.
class FaultyCopy final : public CpuDevice {
 public:
  FaultyCopy(const ExpertShape& shape, int wrong) : CpuDevice(shape, 1 << 12), wrong_(wrong) {}
  MemorySource* memory() override { return &memory_; }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override {
    CpuDevice::load(from, to);
    if (++loaded_ == wrong_) to[to.size() / 2] ^= 0x10;
  }

 private:
  HostMemory memory_;
  int wrong_;
  std::atomic<int> loaded_ = 0;
};

}  // namespace

TEST_CASE("windowed experts: random systems do on hardware what they do in the simulator") {
  std::uint64_t streamed = 0, decoded = 0, resident = 0, over_time = 0, ran = 0;
  for (std::uint64_t seed = 0; seed < kRandomRuns; ++seed) {
    const WindowedCase c(seed);
    if (!c.can_run()) continue;
    ++ran;
    INFO("seed " << seed);
    const WindowedRun hardware = run_windowed(c.run, c.run.system(), c.store, c.host);
    TellingWindow telling;
    const RunResult fast = simulate_windowed(c.run, c.run.system(), hardware.arrivals, telling);
    CHECK(hardware.told == telling.told);
    CHECK(hardware.stored.places == telling.stored.places);
    CHECK(hardware.result.metrics.bytes == fast.metrics.bytes);
    CHECK(hardware.result.metrics.serving.decoded_bytes == fast.metrics.serving.decoded_bytes);
    CHECK(hardware.result.metrics.serving.steps == fast.metrics.serving.steps);
    CHECK(hardware.result.metrics.tokens == fast.metrics.tokens);
    CHECK(hardware.peak <= hardware.limit);
    check_bytes(c, hardware);
    if (starts_at_once(c.run.scenario))  // else other requests may meet
      CHECK(hardware.results == resident_results(c));
    else
      ++over_time;
    streamed += hardware.streamed.loaded;
    decoded += hardware.streamed.decoded;
    resident += hardware.streamed == StreamedBytes{} ? 1 : 0;
  }
  CHECK(ran > kRandomRuns / 2);
  for (const std::uint64_t count : {streamed, decoded, resident, over_time}) CHECK(count > 0);
}

TEST_CASE("windowed experts: without checks the same is brought") {
  for (std::uint64_t seed = 0; seed < moelab::test::random_runs(40u, 10u); ++seed) {
    const WindowedCase c(seed);
    if (!c.can_run() || !starts_at_once(c.run.scenario)) continue;
    const WindowedRun checked = run_windowed(c.run, c.run.system(), c.store, c.host);
    const WindowedRun unchecked = run_windowed(c.run, c.run.system(), c.store, c.host, {.verify = false});
    CHECK(unchecked.results == 0);
    CHECK(unchecked.streamed == checked.streamed);
    CHECK(unchecked.told == checked.told);
  }
}

TEST_CASE(
    "windowed experts: a layer's experts are at its own addresses, in pages that go from layer to layer") {
  PagesAlone p;
  std::uint64_t plain = 0;  // two halves of three experts
  for (const ExpertTensorKind& kind : p.weights.kinds) plain += 2 * 3 * 2 * kind.elements();
  CHECK(p.pages.bytes() == plain);
  CHECK_FALSE(p.pages.streams(1, 0));
  p.bring(0, 0);
  p.bring(1, 1);
  for (std::uint32_t round = 0; round < 50;
       ++round) {  // two layers are there, the third comes in the place of one
    const std::uint32_t next = (round + 2) % 3, half = round % 2;
    REQUIRE(p.holds(round % 3));
    REQUIRE(p.holds((round + 1) % 3));
    { const ExpertPages::Reading reading(p.pages, round % 3, half, p.host); }
    p.bring(next, half);
  }
}

TEST_CASE("windowed experts: what breaks the protocol is caught as it happens") {
  PagesAlone p;
  CHECK_THROWS_WITH(ExpertPages::Reading(p.pages, 0, 0, p.host),
                    Contains("before all of them are in the window"));
  p.bring(0, 0);
  {
    const ExpertPages::Reading reading(p.pages, 0, 0, p.host);
    CHECK_THROWS_WITH(p.pages.remap(2, 0, 0), Contains("is remapped while a kernel reads it"));
    CHECK_THROWS_WITH(p.pages.begin_write(2, 0, 0, 1), Contains("is written while a kernel reads it"));
    CHECK(p.holds(0));
  }
  CHECK_THROWS_WITH(ExpertPages::Reading(p.pages, 2, 0, p.host),
                    Contains("before all of them are in the window"));
  p.pages.begin_write(2, 0, 0, 1);  // one type is still the other layer's
  CHECK_THROWS_WITH(ExpertPages::Reading(p.pages, 2, 0, p.host),
                    Contains("before all of them are in the window"));
}

TEST_CASE("windowed experts: the machine takes a half of the window for one layer at a time") {
  const WindowedCase c(1);
  StandInDevice gpu(ExpertShape{static_cast<std::size_t>(c.run.scenario.model.hidden),
                                static_cast<std::size_t>(c.run.scenario.model.moe().width),
                                c.run.scenario.model.moe().matrices},
                    1 << 12);
  WindowedMachine machine(c.store, c.run.scenario.model, gpu, c.host, {});
  machine.load(0, 1);
  CHECK_THROWS_WITH(machine.load(0, 0), Contains("taken, or twice"));
  if (c.run.trace.layers() > 1) CHECK_THROWS_WITH(machine.load(1, 1), Contains("taken, or twice"));
  machine.release(0);
  CHECK_THROWS_WITH(machine.release(0), Contains("has no half of the window"));
}

TEST_CASE("windowed experts: less memory than planned ends the run before it begins") {
  const WindowedCase c(3);
  StandInDevice gpu(ExpertShape{static_cast<std::size_t>(c.run.scenario.model.hidden),
                                static_cast<std::size_t>(c.run.scenario.model.moe().width),
                                c.run.scenario.model.moe().matrices},
                    1 << 12);
  engine::StoredExperts stored;
  stored.backends = {"resident"};
  stored.experts = c.store.weights().experts;
  stored.places.assign(c.store.weights().layers.size() * stored.experts, 0);
  const std::uint64_t all = 2 * c.store.weights().weights();
  WindowedMachine tight(c.store, c.run.scenario.model, gpu, c.host, {.memory_limit = all});
  CHECK_NOTHROW(tight.store(stored));
  CHECK(tight.ledger().peak() == all);
  WindowedMachine less(c.store, c.run.scenario.model, gpu, c.host, {.memory_limit = all - 1});
  CHECK_THROWS_WITH(less.store(stored), Contains("are planned"));
  stored.backends = {"ssd"};
  WindowedMachine other(c.store, c.run.scenario.model, gpu, c.host, {});
  CHECK_THROWS_WITH(other.store(stored), Contains("backend 'ssd'") && Contains("'host'"));
  stored.backends = {c.codec == "huffman" ? "fixed3" : "huffman"};
  CHECK_THROWS_WITH(WindowedMachine(c.store, c.run.scenario.model, gpu, c.host, {}).store(stored),
                    Contains("were packed by"));
}

TEST_CASE("windowed experts: a copy that goes wrong ends the run before the expert is computed") {
  WindowedCase c(5);
  SystemConfig system = c.run.system();
  system.paging = PagingConfig{};
  system.paging->backends = {"host"};
  const ExpertShape shape{static_cast<std::size_t>(c.run.scenario.model.hidden),
                          static_cast<std::size_t>(c.run.scenario.model.moe().width),
                          c.run.scenario.model.moe().matrices};
  std::uint64_t caught = 0;
  for (int wrong = 1; wrong <= 12; ++wrong) {
    FaultyCopy gpu(shape, wrong);
    try {
      run_windowed(c.run, system, c.store, c.host, {.gpu = &gpu});
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Contains("checksum is not the one it was packed with"));
      ++caught;
    }
  }
  CHECK(caught > 0);  // others are of experts that no token uses
}

}  // namespace moelab::windowed_machine_test
