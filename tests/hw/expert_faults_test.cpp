// What happens to chunks, stores and tensors that are damaged: an error that says where, and nothing
// computed.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "hw/executor/expert_machine.hpp"
#include "models/input_error.hpp"
#include "tests/hw/hardware_runs.hpp"

namespace moelab::expert_faults_test {

using namespace moelab::test;

namespace {

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
  MemorySource* memory() override { return cpu_.memory(); }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> tensor) override {
    cpu_.load(from, tensor);
  }
  void store(std::span<const std::uint16_t> from, std::span<std::byte> to) override { cpu_.store(from, to); }
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
  void dense(double, double, int) override {}
  std::atomic<int> joined = 0, executed = 0;

 private:
  CpuDevice cpu_;
  int wrong_;
};

}  // namespace

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
    timed.verify = false;  // then no checksum is compared
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
    RunOptions options;
    options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
      auto made = std::make_unique<ExpertMachine>(
          store, run.scenario.model, cpu,
          ExpertMachineOptions{.storage =
                                   [&] {
                                     return open_reader(files.path / kStoreDataName, {reads, 1});
                                   },
                               .shards = 2});
      engine::ExpertMirror* const mirror = made.get();
      return {make_hardware_engine(std::move(made)), mirror};
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
    engine::ExpertMirror* const mirror = made.get();
    return {make_hardware_engine(std::move(made)), mirror};
  };
  try {
    run_system(run.scenario, run.system(), run.trace, options);
    FAIL("it ran to its end");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("page_cache: false") != std::string::npos);
  }
}

}  // namespace moelab::expert_faults_test
