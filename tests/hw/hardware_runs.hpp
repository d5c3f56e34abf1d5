// Small scenarios on the hardware engine: a chunk store of the scenario's model, and what runs on it.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "hw/executor/cpu_device.hpp"
#include "hw/executor/expert_machine.hpp"
#include "hw/executor/hardware_engine.hpp"
#include "hw/executor/whole_tensors.hpp"
#include "hw/store/pack.hpp"
#include "hw/store/synthetic_source.hpp"
#include "sim/serving/graph_observer.hpp"
#include "tests/sim/small_systems.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::test {

/// Every change that a serving loop tells, and whether it keeps the mirror's rules.
class RecordingMirror final : public engine::ExpertMirror {
 public:
  struct Event {
    char what;  // p, u, k or r
    std::uint32_t layer, expert;
    engine::Kept from, to;
    bool operator==(const Event&) const = default;
  };
  explicit RecordingMirror(engine::ExpertMirror* next = nullptr) : next_(next) {}
  void preload(engine::ExpertPlace e, engine::Kept as) override {
    events.push_back({'p', e.layer, e.expert, engine::Kept::nothing, as});
    if (next_ != nullptr) next_->preload(e, as);
  }
  void use(engine::ExpertPlace e) override {
    events.push_back({'u', e.layer, e.expert, {}, {}});
    if (next_ != nullptr) next_->use(e);
  }
  void keep(engine::ExpertPlace e, engine::Kept from, engine::Kept to) override {
    events.push_back({'k', e.layer, e.expert, from, to});
    if (next_ != nullptr) next_->keep(e, from, to);
  }
  void release(engine::ExpertPlace e) override {
    events.push_back({'r', e.layer, e.expert, {}, {}});
    if (next_ != nullptr) next_->release(e);
  }
  std::vector<Event> events;

 private:
  engine::ExpertMirror* next_;
};

/// Whether every use was released, and none before it began.
inline bool all_released(const std::vector<RecordingMirror::Event>& events) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> in_use;
  for (const RecordingMirror::Event& event : events) {
    if (event.what == 'u') ++in_use[{event.layer, event.expert}];
    if (event.what == 'r' && --in_use[{event.layer, event.expert}] < 0) return false;
  }
  return std::ranges::all_of(in_use, [](const auto& uses) { return uses.second == 0; });
}

/// How many tensors and chunks are in memory that are not, bit for bit, what was packed.
inline std::uint64_t wrong_parts(ExpertMemory& memory, const ChunkStoreReader& store, ComputeDevice& device) {
  std::uint64_t wrong = 0;
  const auto count = [&wrong](const Buffer& part, std::uint64_t packed) {
    if (part && checksum(part.all()) != packed) ++wrong;
  };
  for (std::uint64_t ordinal = 0; ordinal < store.weights().tensors(); ++ordinal) {
    const TensorPlace place = place_of(store.weights(), ordinal);
    const TensorParts& parts = memory.parts(place);
    if (parts.tensor &&
        device.checksum_of(parts.tensor.as<const std::uint16_t>()) != store.tensor_checksum(place))
      ++wrong;
    count(parts.sign_mantissas, store.sign_mantissa_chunk(place).record.checksum);
    for (std::uint32_t chunk = 0; chunk < parts.exponent_chunks.size(); ++chunk)
      count(parts.exponent_chunks[chunk], store.exponent_chunk(place, chunk).record.checksum);
  }
  return wrong;
}

/// The experts of a scenario's model on storage.
class RunStore {
 public:
  explicit RunStore(const Architecture& model, const std::string& codec, std::uint32_t shards,
                    std::uint64_t seed = 1)
      : path(folder_ / "store"), whole(folder_ / "whole.data") {
    const SyntheticSource source(expert_weights_of(model), seed);
    pack(source, path, {codec, std::max(1u, shards), 1, {}});
    if (shards == 0) write_whole_tensors(ChunkStoreReader(path), whole);
  }
  /// The largest tensor's E-chunks over its elements: what a profile would say of the codec.
  double ratio() const {
    const ChunkStoreReader store(path);
    double largest = 0;
    for (std::uint64_t o = 0; o < store.weights().tensors(); ++o) {
      const TensorPlace place = place_of(store.weights(), o);
      double bytes = 0;
      for (std::uint32_t c = 0; c < store.description().shards; ++c)
        bytes += static_cast<double>(store.exponent_chunk(place, c).record.stored_bytes);
      largest = std::max(largest, bytes / static_cast<double>(store.weights().kinds[place.kind].elements()));
    }
    return largest;
  }

 private:
  test::ScratchFolder folder_;

 public:
  const std::filesystem::path path, whole;
};

/// A system's run on hardware: what it takes beside the scenario.
struct HardwareRun {
  explicit HardwareRun(const RunStore& store) : files(store) {}
  const RunStore& files;
  ReadMode reads = ReadMode::buffered;
  std::uint64_t memory_limit = 0;
  bool verify = true;
  ComputeDevice* device = nullptr;  // nullptr: a CpuDevice
  HardwareOptions engine = {};
  GraphObserver* observer = nullptr;
  LoadWitness witness = {};
  const HostExperts* host_experts = nullptr;  // with a discrete GPU, which `device` then is
  KvSwapRoom swaps = {};

  // What it leaves.
  std::uint64_t peak_bytes = 0, left_bytes = 0;
  std::uint64_t left_wrong = 0;  // wrong_parts()
  std::array<std::uint64_t, kTiers> bytes_read{};
  std::uint64_t swapped_out = 0, swapped_in = 0;  // bytes of the KV cache
  std::vector<RecordingMirror::Event> events;

  RunResult run(const SmallRun& small) {
    const ChunkStoreReader store(files.path);
    const Architecture& model = small.scenario.model;
    const FeedForward& ff = model.moe();
    CpuDevice cpu({static_cast<std::size_t>(model.hidden), static_cast<std::size_t>(ff.width), ff.matrices},
                  1 << 16);
    std::unique_ptr<RecordingMirror> mirror;
    RunOptions options;
    options.observer = [this](const SystemConfig&) { return observer; };
    options.witness = witness;
    options.platform = [&](const SystemConfig& system, const ExpertCosts&, const MemoryPlan&) -> Platform {
      const auto open = [this, &system] {
        return open_reader(system.compressed ? files.path / kStoreDataName : files.whole, {reads, 1});
      };
      auto machine = std::make_unique<ExpertMachine>(
          store, model, device != nullptr ? *device : cpu,
          ExpertMachineOptions{.storage = open,
                               .page_cache = open,
                               .host_experts = host_experts,
                               .cpu = &cpu,
                               .swaps = swaps,
                               .reading_threads = system.worker_reads ? 1 + system.threads : 1,
                               .shards = system.shards,
                               .memory_limit = memory_limit,
                               .verify = verify});
      mirror = std::make_unique<RecordingMirror>(machine.get());
      return {make_hardware_engine(std::make_unique<Watched>(std::move(machine), store,
                                                             device != nullptr ? *device : cpu, *this),
                                   engine),
              mirror.get()};
    };
    const RunResult result = run_system(small.scenario, small.system(), small.trace, options);
    events = mirror->events;
    return result;
  }

 private:
  /// Notes what is in memory when the machine goes.
  class Watched final : public Machine {
   public:
    Watched(std::unique_ptr<ExpertMachine> machine, const ChunkStoreReader& store, ComputeDevice& device,
            HardwareRun& run)
        : machine_(std::move(machine)), store_(store), device_(device), run_(run) {}
    ~Watched() override {
      run_.peak_bytes = machine_->memory().ledger().peak();
      run_.left_bytes = machine_->memory().ledger().held();
      run_.left_wrong = wrong_parts(machine_->memory(), store_, device_);
      for (const Tier tier : {Tier::ssd, Tier::page_cache, Tier::host})
        run_.bytes_read[static_cast<std::size_t>(tier)] = machine_->bytes_read(tier);
      if (machine_->swaps() == nullptr) return;
      run_.swapped_out = machine_->swaps()->bytes_out();
      run_.swapped_in = machine_->swaps()->bytes_in();
    }
    void begin(const engine::Graph& g, engine::OpIndex op) override { machine_->begin(g, op); }
    void run(const engine::Graph& g, engine::OpIndex op, std::stop_token stop) override {
      machine_->run(g, op, std::move(stop));
    }
    void end(const engine::Graph& g, engine::OpIndex op) override { machine_->end(g, op); }

   private:
    std::unique_ptr<ExpertMachine> machine_;
    const ChunkStoreReader& store_;
    ComputeDevice& device_;
    HardwareRun& run_;
  };
};

/// The same on the fast engine, with the mirror's events.
inline RunResult fast_run(const SmallRun& small, std::vector<RecordingMirror::Event>& events) {
  RecordingMirror mirror;
  RunOptions options;
  options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
    return {engine::make_fast_engine(), &mirror};
  };
  const RunResult result = run_system(small.scenario, small.system(), small.trace, options);
  events = mirror.events;
  return result;
}

/// Three layers of six experts of three tensors, one decode pass of two tokens after the other.
inline SmallRun decode_run(std::uint64_t seed = 3, std::uint32_t batch = 2) {
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

}  // namespace moelab::test
