// A system on a discrete GPU that the CPU plays, and the same in the simulator: what both did.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "hw/executor/host_experts.hpp"
#include "tests/hw/hardware_runs.hpp"
#include "tests/hw/linked_runs.hpp"

namespace moelab::test {

inline ExpertShape shape_of(const Architecture& model) {
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

inline RunResult simulated(const SmallRun& run, Decisions& decisions, LoadWitness witness,
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

inline void check_same(const RoutingCounts& a, const RoutingCounts& b) {
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

/// Both runs of a system. The simulator's policies hear of loads what those on hardware heard.
struct LinkedPair {
  RunResult measured;
  std::optional<RunResult> fast;  // empty where the system prefetches: what is found then depends on time
  Decisions did, predicted;
  std::vector<RecordingMirror::Event> events, fast_events;
  std::uint64_t left_bytes = 0;
  bool all_told = false;
};

/// Checks what is so of every run on hardware.
inline LinkedPair run_linked(const SmallRun& run, const RunStore& files, const HostExperts& host,
                             ComputeDevice& gpu, std::uint64_t memory_limit = 0) {
  LinkedPair pair;
  Heard heard;
  HardwareRun hardware{files};
  hardware.device = &gpu;
  hardware.host_experts = &host;
  hardware.memory_limit = memory_limit;
  hardware.observer = &pair.did;
  hardware.witness = heard.keep();
  pair.measured = hardware.run(run);
  CHECK(static_cast<double>(hardware.bytes_read[static_cast<std::size_t>(Tier::host)]) ==
        pair.measured.metrics.bytes[static_cast<std::size_t>(Tier::host)]);
  CHECK(hardware.bytes_read[static_cast<std::size_t>(Tier::ssd)] == 0);
  CHECK(all_released(hardware.events));
  CHECK(hardware.left_wrong == 0);
  pair.events = std::move(hardware.events);
  pair.left_bytes = hardware.left_bytes;
  if (run.system().prefetch.name != "none") return pair;
  pair.fast = simulated(run, pair.predicted, heard.tell(), pair.fast_events);
  pair.all_told = heard.all_told();
  return pair;
}

/// Everything but time. Only where there is a run to compare with.
inline void check_same_decisions(const LinkedPair& pair) {
  const Metrics &measured = pair.measured.metrics, &fast = pair.fast->metrics;
  CHECK(pair.all_told);
  CHECK(pair.did.graphs == pair.predicted.graphs);
  CHECK(pair.events == pair.fast_events);
  CHECK(measured.hits == fast.hits);
  CHECK(measured.bytes == fast.bytes);
  CHECK(measured.execution.loaded == fast.execution.loaded);
  CHECK(measured.execution.on_cpu == fast.execution.on_cpu);
  check_same(measured.routing, fast.routing);
}

}  // namespace moelab::test
