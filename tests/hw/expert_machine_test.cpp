// Serving from a chunk store on real threads: the same decisions as the simulator's, with checksums that are
// right, in memory that follows the cache's states; and what happens to what is damaged.
#include "hw/executor/expert_machine.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/schedule/schedule.hpp"
#include "tests/hw/hardware_runs.hpp"

using namespace moelab;
using namespace moelab::testing;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRandomRuns = 60;
#else
constexpr std::uint64_t kRandomRuns = 250;
#endif

/// Three layers of six experts of three tensors, one decode pass of two tokens after the other.
SmallRun decode_run(std::uint64_t seed = 3, std::uint32_t batch = 2) {
  SmallRun run;
  Random random(seed);
  Scenario& s = run.scenario;
  s.name = "decode";
  s.model = small_model({.moe_layers = 3, .experts = 6, .top_k = 2, .shared_width = 48});
  s.device = small_device();
  s.workload.batch = batch;
  s.workload.trace_file = "made up";
  SystemConfig system = plain_system("hardware");
  system.compressed = true;
  system.codec = "lz";
  system.shards = 2;
  system.threads = 2;
  system.schedule.name = "cache-affinity";
  s.systems.push_back(system);
  run.trace = random_trace(random, s.model, std::vector<Lengths>(4, {0, 8}), true, false);
  give_room(run, 2.5);
  return run;
}

void use_pools(SystemConfig& system) {
  system.pools = {true, true, true, true, false};
  system.planning.name = "fixed";
  system.ratios = {0.4, 0.3, 0.2, 0.1, 0};
}

/// Everything but time.
void check_same_decisions(const RunResult& fast, const RunResult& hardware) {
  CHECK(hardware.executor == "hardware");
  CHECK(hardware.metrics.hits == fast.metrics.hits);
  CHECK(hardware.metrics.decode_hits == fast.metrics.decode_hits);
  CHECK(hardware.metrics.bytes == fast.metrics.bytes);
  CHECK(hardware.metrics.tokens == fast.metrics.tokens);
  CHECK(hardware.operations == fast.operations);
}

/// Bytes that a plan gives to experts.
std::uint64_t planned_bytes(const MemoryPlan& plan) {
  return static_cast<std::uint64_t>((plan.expert_cache + plan.staging + plan.prefetch).value());
}

/// Bytes of the chunks (or whole tensors) that a run's operations read.
class ReadBytes final : public GraphObserver {
 public:
  ReadBytes(const RunStore& files, bool whole) : store_(files.path), whole_(whole) {}
  void finished(const LabelledGraph& graph, std::uint64_t, std::int32_t) override {
    for (engine::OpIndex op = 0; op < graph.graph.size(); ++op) {
      const OpLabel& label = graph.labels[op];
      if (label.tier == Tier::none || !graph.graph.was_started(op)) continue;
      const TensorPlace place{graph.layer, label.expert, label.tensor};
      const std::uint64_t elements = store_.weights().kinds[label.tensor].elements();
      bytes[static_cast<std::size_t>(label.tier)] +=
          whole_                          ? 2 * elements
          : label.kind == OpKind::read_sm ? elements
                                          : store_.exponent_chunk(place, label.chunk).record.stored_bytes;
    }
  }
  std::array<std::uint64_t, kTiers> bytes{};

 private:
  ChunkStoreReader store_;
  bool whole_;
};

std::string error_of(HardwareRun& hardware, const SmallRun& run) {
  try {
    hardware.run(run);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void flip(const std::filesystem::path& file, std::uint64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
}

/// A device whose joins go wrong from the n-th on, by one bit; experts that were computed are counted.
class FaultyDevice final : public ComputeDevice {
 public:
  explicit FaultyDevice(const ExpertShape& shape, int wrong) : cpu_(shape, 1 << 12), wrong_(wrong) {}
  MemorySource& memory() override { return cpu_.memory(); }
  void recover(std::span<const std::byte> e, std::span<const std::byte> sm,
               std::span<std::uint16_t> tensor) override {
    cpu_.recover(e, sm, tensor);
    if (++joined == wrong_) tensor[tensor.size() / 2] ^= 0x10;
  }
  std::uint64_t checksum_of(std::span<const std::uint16_t> tensor) override {
    return cpu_.checksum_of(tensor);
  }
  void extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sm) override {
    cpu_.extract(tensor, sm);
  }
  void execute(const ExpertOperands& expert, std::uint32_t tokens) override {
    cpu_.execute(expert, tokens);
    ++executed;
  }
  void dense(double, double) override {}
  std::atomic<int> joined = 0, executed = 0;

 private:
  CpuDevice cpu_;
  int wrong_;
};

}  // namespace

TEST_CASE("hardware: every cache under every schedule decides as in the simulator, within planned memory") {
  SmallRun run = decode_run();
  const RunStore files(run.scenario.model, "fixed3", 2);
  run.scenario.device.codecs["lz"].ratio.value = files.ratio();
  REQUIRE(files.ratio() < 2.0 / 3);  // or two experts' worth of staging an expert would not hold its parts
  for (const CachePolicyEntry& cache : cache_policies())
    for (const SchedulePolicyEntry& schedule : schedule_policies()) {
      if (schedule.info.name == "exhaustive") continue;  // too many orders to try
      for (const State kept_as : {State::F, State::C, State::S, State::E}) {
        SystemConfig& system = run.scenario.systems.front();
        system.cache.name = cache.info.name;
        system.schedule.name = schedule.info.name;
        system.kept_as = cache.uses_pools ? State::F : kept_as;
        if (cache.uses_pools) use_pools(system);
        INFO(cache.info.name << ", " << schedule.info.name << ", kept as "
                             << kStateNames[index(system.kept_as)]);
        std::vector<RecordingMirror::Event> events;
        const RunResult fast = fast_run(run, events);
        HardwareRun hardware{files};
        hardware.memory_limit = planned_bytes(fast.memory);
        check_same_decisions(fast, hardware.run(run));
        CHECK(hardware.events == events);
        CHECK(hardware.peak_bytes <= planned_bytes(fast.memory));
        CHECK(hardware.peak_bytes > hardware.left_bytes);
        CHECK(static_cast<double>(hardware.left_bytes) <= fast.memory.expert_cache.value());
        if (cache.uses_pools) break;
      }
    }
}

TEST_CASE("hardware: random scenarios of every kind run, and decide as in the simulator") {
  std::uint64_t checked = 0, hits = 0;
  for (std::uint64_t seed = 0; seed < kRandomRuns; ++seed) {
    INFO("seed " << seed);
    const SmallRun run = random_run(seed);
    const SystemConfig& system = run.system();
    static const std::vector<std::string> kCodecs = {"fixed3", "lz4hc", "zstd", "huffman", "none"};
    const RunStore files(run.scenario.model, kCodecs[seed % kCodecs.size()], system.shards, seed);
    std::vector<RecordingMirror::Event> events;
    const RunResult fast = fast_run(run, events);
    HardwareRun hardware{files};
    hardware.reads = static_cast<ReadMode>(seed % 3);
    ReadBytes read(files, system.shards == 0);
    hardware.observer = &read;
    const RunResult result = hardware.run(run);
    CHECK(result.metrics.tokens == fast.metrics.tokens);
    CHECK(hardware.bytes_read == read.bytes);
    // What is used, and released, does not depend on time; with prefetching what is found does.
    std::map<std::pair<std::uint32_t, std::uint32_t>, int> in_use;
    for (const auto& event : hardware.events)
      if (event.what != 'k') CHECK((in_use[{event.layer, event.expert}] += event.what == 'u' ? 1 : -1) >= 0);
    for (const auto& [place, uses] : in_use) CHECK(uses == 0);
    if (system.prefetch.name != "none") continue;
    ++checked;
    hits += fast.metrics.hits[index(State::F)];
    check_same_decisions(fast, result);
    CHECK(hardware.events == events);
  }
  CHECK(checked > kRandomRuns / 8);
  CHECK(hits > 0);
}

TEST_CASE("hardware: a damaged chunk stops the run with its place, before the expert is computed") {
  const SmallRun run = decode_run();
  const RunStore clean(run.scenario.model, "fixed3", 2);
  // Which expert is used first?
  HardwareRun first{clean};
  first.run(run);
  const auto& [what, layer, expert, from, to] = first.events.front();
  const ChunkStoreReader store(clean.path);
  const std::string where =
      "layer " + std::to_string(store.weights().layers[layer]) + ", expert " + std::to_string(expert);
  for (std::uint32_t kind = 0; kind < 3; ++kind)
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
      const RunStore files(run.scenario.model, "fixed3", 2);
      const TensorPlace place{layer, expert, kind};
      const StoredChunk stored =
          chunk < 2 ? store.exponent_chunk(place, chunk) : store.sign_mantissa_chunk(place);
      flip(files.path / kStoreDataName, stored.offset + stored.record.stored_bytes / 2);
      HardwareRun hardware{files};
      const std::string error = error_of(hardware, run);
      INFO(error);
      CHECK(error.find(where + ", " + store.weights().kinds[kind].name) != std::string::npos);
      CHECK(error.find(chunk < 2 ? "E-chunk " + std::to_string(chunk) : std::string("SM-chunk")) !=
            std::string::npos);
      CHECK(error.find("byte " + std::to_string(stored.offset)) != std::string::npos);
      CHECK(error.find(kStoreDataName) != std::string::npos);
    }
}

TEST_CASE("hardware: a tensor that is joined wrongly is never computed with") {
  const SmallRun run = decode_run();
  const RunStore files(run.scenario.model, "fixed3", 2);
  for (const int wrong : {1, 2, 30, 50}) {
    FaultyDevice device({32, 48, 3}, wrong);
    HardwareRun hardware{files};
    hardware.device = &device;
    const std::string error = error_of(hardware, run);
    INFO(error);
    CHECK(error.find("the tensor's checksum") != std::string::npos);
    CHECK(error.find("expert ") != std::string::npos);
    CHECK(device.executed <= (device.joined - 1) / 3 + 12);  // those found in the cache count twice
    FaultyDevice unchecked({32, 48, 3}, wrong);
    HardwareRun timed{files};
    timed.device = &unchecked;
    timed.verify = false;  // then it is nobody's business
    CHECK(error_of(timed, run).empty());
  }
  FaultyDevice at_once({32, 48, 3}, 1);
  HardwareRun hardware{files};
  hardware.device = &at_once;
  const std::string error = error_of(hardware, run);
  const auto& event = hardware.events;
  CHECK(event.empty());  // the run did not come to its end
  CHECK(error.find("checksum") != std::string::npos);
}

TEST_CASE("hardware: stores that are cut short, gone or of something else are refused") {
  const SmallRun run = decode_run();
  const auto error = [&](const RunStore& files, const SmallRun& small) {
    HardwareRun hardware{files};
    const std::string text = error_of(hardware, small);
    INFO(text);
    CHECK_FALSE(text.empty());
    return text;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  {
    const RunStore files(run.scenario.model, "fixed3", 2);
    std::filesystem::resize_file(files.path / kStoreDataName, 4096);
    contains(error(files, run), "cut short");
  }
  {
    const RunStore files(run.scenario.model, "fixed3", 2);
    std::filesystem::remove(files.path / kStoreDataName);
    contains(error(files, run), kStoreDataName);
  }
  {
    const RunStore files(run.scenario.model, "fixed3", 3);
    contains(error(files, run), "3 E-chunks a tensor, the system reads 2");
  }
  {
    SmallRun other = run;
    other.scenario.model = small_model({.moe_layers = 3, .experts = 7, .top_k = 2});
    const RunStore files(other.scenario.model, "fixed3", 2);
    contains(error(files, run), "7");
  }
  {
    const RunStore files(run.scenario.model, "fixed3", 2);
    HardwareRun hardware{files};
    hardware.memory_limit = 20'000;
    contains(error_of(hardware, run), "20000 are planned");
  }
}

TEST_CASE("hardware: a store that shrinks or goes while it is read ends the run with the file's name") {
  const SmallRun run = decode_run();
  for (const ReadMode reads : {ReadMode::buffered, ReadMode::direct, ReadMode::io_uring}) {
    const RunStore files(run.scenario.model, "fixed3", 2);
    const ChunkStoreReader store(files.path);
    CpuDevice cpu({32, 48, 3}, 1 << 12);
    ExpertMachine* machine = nullptr;
    RunOptions options;
    options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
      auto made = std::make_unique<ExpertMachine>(
          store, run.scenario.model, cpu,
          ExpertMachineOptions{.storage =
                                   [&] {
                                     return open_reader(files.path / kStoreDataName, {reads, 1});
                                   },
                               .shards = 2});
      machine = made.get();
      return {make_hardware_engine(std::move(made)), &machine->memory()};
    };
    int passes = 0;
    options.progress = [&](const SystemConfig&, std::uint64_t, std::uint64_t) {
      if (++passes == 2) std::filesystem::resize_file(files.path / kStoreDataName, 4096);
    };
    try {
      run_system(run.scenario, run.system(), run.trace, options);
      FAIL("it ran to its end");
    } catch (const InputError& error) {
      INFO(error.what());
      CHECK(std::string(error.what()).find(kStoreDataName) != std::string::npos);
    }
    CHECK(passes == 2);
  }
}

TEST_CASE("hardware: a read that is simulated as a hit of the page cache needs a reader of its own") {
  SmallRun run = decode_run();
  run.scenario.systems.front().page_cache = true;
  const RunStore files(run.scenario.model, "fixed3", 2);
  const ChunkStoreReader store(files.path);
  CpuDevice cpu({32, 48, 3}, 1 << 12);
  RunOptions options;
  options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
    auto made = std::make_unique<ExpertMachine>(
        store, run.scenario.model, cpu,
        ExpertMachineOptions{.storage = [&] { return open_reader(files.path / kStoreDataName, {}); },
                             .shards = 2});
    engine::ExpertMirror* const mirror = &made->memory();
    return {make_hardware_engine(std::move(made)), mirror};
  };
  try {
    run_system(run.scenario, run.system(), run.trace, options);
    FAIL("it ran to its end");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("page_cache: false") != std::string::npos);
  }
}
