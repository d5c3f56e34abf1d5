// Small scenarios whose experts are paged, on a GPU that the CPU plays, and in the simulator: what both did.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "hw/executor/hardware_engine.hpp"
#include "hw/executor/stand_in_device.hpp"
#include "hw/executor/windowed_machine.hpp"
#include "models/input_error.hpp"
#include "policies/storage/storage.hpp"
#include "sim/run.hpp"
#include "sim/run_paged.hpp"
#include "sim/serving/paged_plan.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/hw/hardware_runs.hpp"
#include "tests/hw/linked_runs.hpp"

namespace moelab::test {

/// The CPU in the place of a GPU that decodes `codec`, to `ratio` of whole weights, and remaps.
inline DeviceProfile paging_stand_in(const std::string& codec, double ratio) {
  DeviceProfile d = stand_in_device();
  d.gpu->remap = {Curve::affine(2e-6, 5e10), ""};
  d.gpu->codecs[codec] = {{ratio, ""}, {BytesPerSecond(4e8), ""}};
  return d;
}

/// What a stage told, in its words: "load 2 in 0", "compute 2: 0 3 1", "release 2".
class TellingWindow final : public engine::WindowMirror {
 public:
  explicit TellingWindow(engine::WindowMirror* next = nullptr) : next_(next) {}
  void store(const engine::StoredExperts& experts) override {
    stored = experts;
    if (next_ != nullptr) next_->store(experts);
  }
  void load(std::uint32_t layer, std::uint32_t half) override {
    told.push_back("load " + std::to_string(layer) + " in " + std::to_string(half));
    if (next_ != nullptr) next_->load(layer, half);
  }
  void compute(std::uint32_t layer, std::span<const std::uint32_t> tokens) override {
    std::string line = "compute " + std::to_string(layer) + ":";
    for (const std::uint32_t n : tokens) line += " " + std::to_string(n);
    told.push_back(line);
    if (next_ != nullptr) next_->compute(layer, tokens);
  }
  void release(std::uint32_t layer) override {
    told.push_back("release " + std::to_string(layer));
    if (next_ != nullptr) next_->release(layer);
  }
  engine::StoredExperts stored;
  std::vector<std::string> told;

 private:
  engine::WindowMirror* next_;
};

/// What a run on hardware left.
struct WindowedRun {
  RunResult result;
  std::vector<std::string> told;
  engine::StoredExperts stored;
  std::vector<std::size_t> arrivals;  // requests that had come, step by step
  StreamedBytes streamed;
  std::uint64_t results = 0, peak = 0, limit = 0, swapped_out = 0, swapped_in = 0;
};

/// Notes what the machine did when it goes.
class NotedWindow final : public Machine {
 public:
  NotedWindow(std::unique_ptr<WindowedMachine> machine, WindowedRun& run)
      : machine_(std::move(machine)), run_(run) {}
  ~NotedWindow() override {
    run_.streamed = machine_->streamed();
    run_.results = machine_->results();
    run_.peak = machine_->ledger().peak();
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
  std::unique_ptr<WindowedMachine> machine_;
  WindowedRun& run_;
};

struct WindowedHow {
  ComputeDevice* gpu = nullptr;  // nullptr: a StandInDevice
  bool verify = true;
  KvSwapRoom swaps = {};
};

/// In exactly the memory that is planned.
inline WindowedRun run_windowed(const SmallRun& small, const SystemConfig& system,
                                const ChunkStoreReader& store, const HostExperts& host,
                                const WindowedHow& how = {}) {
  const Architecture& model = small.scenario.model;
  const FeedForward& ff = model.moe();
  StandInDevice own({static_cast<std::size_t>(model.hidden), static_cast<std::size_t>(ff.width), ff.matrices},
                    1 << 16);
  WindowedRun run;
  std::unique_ptr<TellingWindow> telling;
  RunOptions options;
  options.arrivals = [&](std::size_t come) { return run.arrivals.emplace_back(come); };
  options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan& plan) -> Platform {
    run.limit = static_cast<std::uint64_t>(std::ceil((plan.expert_cache + plan.staging).value()));
    auto machine = std::make_unique<WindowedMachine>(
        store, model, how.gpu != nullptr ? *how.gpu : static_cast<ComputeDevice&>(own), host,
        WindowedMachineOptions{.swaps = how.swaps, .memory_limit = run.limit, .verify = how.verify});
    telling = std::make_unique<TellingWindow>(machine.get());
    return {make_hardware_engine(std::make_unique<NotedWindow>(std::move(machine), run)), nullptr,
            telling.get()};
  };
  run.result = run_system(small.scenario, system, small.trace, options);
  run.told = telling->told;
  run.stored = telling->stored;
  return run;
}

/// The same steps on the fast engine.
inline RunResult simulate_windowed(const SmallRun& small, const SystemConfig& system,
                                   const std::vector<std::size_t>& arrivals, TellingWindow& telling) {
  RunOptions options;
  options.arrivals = [&, next = std::size_t{0}](std::size_t come) mutable {
    return next < arrivals.size() ? arrivals[next++] : come;
  };
  options.platform = [&](const SystemConfig&, const ExpertCosts&, const MemoryPlan&) -> Platform {
    return {engine::make_fast_engine(), nullptr, &telling};
  };
  return run_system(small.scenario, system, small.trace, options);
}

/// A system that pages its experts with any storage policy and batching.
inline SystemConfig random_windowed_system(Random& random, const std::string& codec) {
  SystemConfig s = plain_system("paged");
  PagingConfig& p = s.paging.emplace();
  if (coin(random)) p.backends.emplace_back("resident");
  if (coin(random)) p.backends.push_back(codec);
  if (p.backends.empty() || coin(random)) p.backends.emplace_back("host");
  p.storage.name = any_name(random, storage_policies());
  if (p.storage.name == "fixed" || p.storage.name == "whole-layer")
    p.storage.parameters = {{"offloaded", random.uniform()}};
  BatchingConfig& batching = s.batching.emplace();
  batching.max_tokens = from(random, 4, 24);
  if (coin(random))
    batching.policy = {"static", {}};
  else
    batching.policy = {"continuous", {{"chunked", from(random, 0, 1)}}};
  s.kv.block_tokens = from(random, 1, 5);
  return s;
}

/// Packed by `codec`, whose ratio in the profile is that of the largest tensor.
struct WindowedCase {
  explicit WindowedCase(std::uint64_t seed) : WindowedCase(seed, Random(seed + 0xf1)) {}

  std::string codec;
  std::uint32_t shards;
  SmallRun run;
  RunStore files;
  ChunkStoreReader store;
  HostExperts host;

  /// Whether the storage policy has a split of these backends, and the KV cache room for all requests.
  bool can_run() const {
    try {
      check_paged_system(run.scenario, run.system(), run.trace);
    } catch (const InputError&) {
      return false;
    }
    return true;
  }

 private:
  static Architecture random_model(Random& random) {
    ModelShape shape;
    shape.moe_layers = static_cast<int>(from(random, 1, 5));
    shape.dense_layers = static_cast<int>(from(random, 0, 2));
    shape.experts = static_cast<int>(from(random, 2, 7));
    shape.top_k = static_cast<int>(from(random, 1, 2));
    shape.matrices = static_cast<int>(from(random, 2, 3));
    shape.shared_width = coin(random) ? 48 : 0;
    return small_model(shape);
  }
  static SmallRun random_run(std::uint64_t seed, Random& random, const Architecture& model,
                             const std::string& codec, double ratio) {
    SmallRun run;
    Scenario& s = run.scenario;
    s.name = "windowed";
    s.seed = seed;
    s.model = model;
    s.device = paging_stand_in(codec, (1 + ratio) / 2);
    s.budget = Bytes(5e8);
    s.workload.batch = from(random, 1, 3);
    s.workload.request_log = "made up";
    const bool over_time = from(random, 0, 3) == 0;
    double arrival = 0;
    for (std::uint32_t i = from(random, 1, 5); i > 0; --i) {
      s.workload.log.push_back({arrival, from(random, 1, 4), from(random, 1, 5)});
      if (over_time) arrival += 1e-3 * random.uniform();
    }
    run.trace = random_trace(random, s.model, {{0, from(random, 1, 40)}}, false);
    s.systems.push_back(random_windowed_system(random, codec));
    return run;
  }
  WindowedCase(std::uint64_t seed, Random random)
      : codec(coin(random) ? "fixed3" : "huffman"),
        shards(from(random, 1, 3)),
        run{},
        files((run.scenario.model = random_model(random), run.scenario.model), codec, shards, seed),
        store(files.path),
        host(store) {
    run = random_run(seed, random, Architecture(run.scenario.model), codec, files.ratio());
  }
};

}  // namespace moelab::test
