// One sparse layer of DeepSeek-V2-Lite with nothing in memory, simulated again and again: 6 experts of 3
// tensors, K = 4, L = 6, 186 operations. Every variant checks its makespan against the recurrence. See
// README.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "policies/schedule/schedule.hpp"
#include "sim/engine/engine.hpp"
#include "sim/serving/layer_graph.hpp"
#include "sim/simgrid_module.hpp"

namespace moelab {
namespace {

constexpr std::int64_t kBatch = 64;  // layers in one go, so that starting a process does not count
constexpr int kRounds = 41;          // of the comparison with bare loops; odd, for the median

LayerInstance all_miss_layer() {
  LayerInstance layer{6, 4, 900e-6, 108e-6, 625e-6, 74e-6, {}};
  for (std::uint32_t e = 0; e < 6; ++e) layer.experts.push_back({e, 3, State::M, 100e-6 + 3e-6 * e});
  return layer;
}

/// The same recurrence as loops over arrays: what the engine's generality is measured against.
class BareLoops {
 public:
  BareLoops() { make_schedule_policy("cache-affinity")->order(layer_, order_); }
  double run(std::int64_t layers) {
    for (std::int64_t i = 0; i < layers; ++i)
      benchmark::DoNotOptimize(makespan_ = recurrence_.makespan(layer_, order_));
    return makespan_;
  }

 private:
  LayerInstance layer_ = all_miss_layer();
  LayerOrder order_;
  LayerRecurrence recurrence_;
  double makespan_ = 0;
};

/// What is done again for every layer, besides running it.
enum class Again { nothing, build, order_and_build };

class LayersOnEngine {
 public:
  explicit LayersOnEngine(Again again, std::unique_ptr<engine::Engine> with = engine::make_fast_engine())
      : again_(again), engine_(std::move(with)), builder_(add_resources(*engine_), false, 0) {
    reads_.assign(layer_.experts.size(), {});
    for (ExpertReads& r : reads_) {
      r.sm_s = layer_.sm_read_s;
      r.e_s = layer_.e_read_s;
      r.sm_tier = r.e_tier = Tier::none;
    }
    policy_->order(layer_, order_);
    build();
  }

  double run(std::int64_t layers) {
    engine::Process process = play(layers);
    engine_->spawn(process);
    engine_->run();
    return last_makespan();
  }
  double last_makespan() const { return g_.graph.finished_at() - g_.graph.submitted_at(); }
  std::size_t operations() const { return g_.graph.size(); }

 private:
  static ServerResources add_resources(engine::Engine& engine) {
    ServerResources r{};
    r.io = engine.add_resource("io", 1);
    r.decompress = engine.add_resource("decompress", all_miss_layer().threads);
    r.recover = engine.add_resource("recover", 1);
    r.experts = engine.add_resource("expert_compute", 1);
    return r;
  }
  void build() {
    g_.clear();
    builder_.build(layer_, order_, reads_, tokens_, g_);
  }
  engine::Process play(std::int64_t layers) {
    for (std::int64_t i = 0; i < layers; ++i) {
      if (again_ == Again::order_and_build) policy_->order(layer_, order_);
      if (again_ != Again::nothing) build();
      engine_->submit(g_.graph, engine::kDemand);
      co_await engine_->finished(g_.graph);
    }
  }

  Again again_;
  LayerInstance layer_ = all_miss_layer();
  LayerOrder order_;
  std::unique_ptr<SchedulePolicy> policy_ = make_schedule_policy("cache-affinity");
  std::vector<ExpertReads> reads_;
  std::vector<std::uint32_t> tokens_ = std::vector<std::uint32_t>(layer_.experts.size(), 1);
  std::unique_ptr<engine::Engine> engine_;
  LayerGraphBuilder builder_;
  LabelledGraph g_;
};

template <class Layers>
double seconds_of_batch(Layers& layers) {
  const auto begin = std::chrono::steady_clock::now();
  layers.run(kBatch);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Time relative to bare loops, both measured in turns so that a busy machine slows both: ratio of medians.
template <class Layers>
double of_bare_loops(Layers& layers) {
  BareLoops bare;
  std::vector<double> ours(kRounds), theirs(kRounds);
  for (int i = 0; i < kRounds; ++i) {
    ours[static_cast<std::size_t>(i)] = seconds_of_batch(layers);
    theirs[static_cast<std::size_t>(i)] = seconds_of_batch(bare);
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + kRounds / 2, v.end());
    return v[kRounds / 2];
  };
  return median(ours) / median(theirs);
}

template <class Layers>
void measure(benchmark::State& state, Layers& layers) {
  const double expected = BareLoops().run(1), makespan = layers.run(1);
  if (std::abs(makespan - expected) > 1e-9 * expected) return state.SkipWithError("wrong makespan");
  while (state.KeepRunningBatch(kBatch)) layers.run(kBatch);
  const auto operations = static_cast<std::int64_t>(LayersOnEngine(Again::nothing).operations());
  state.SetItemsProcessed(state.iterations() * operations);
  state.counters["of_bare_loops"] = of_bare_loops(layers);
}

void layer_resubmitted(benchmark::State& state) {
  LayersOnEngine layers(Again::nothing);
  measure(state, layers);
}
void layer_built_each_time(benchmark::State& state) {
  LayersOnEngine layers(Again::build);
  measure(state, layers);
}
void layer_ordered_and_built_each_time(benchmark::State& state) {
  LayersOnEngine layers(Again::order_and_build);
  measure(state, layers);
}
void layer_by_bare_loops(benchmark::State& state) {
  BareLoops layers;
  measure(state, layers);
}
/// The same graph on SimGrid, of which a process can have one engine and run it once: a fixed number of
/// layers in a child, against as many on the fast engine right before and after.
void layer_on_simgrid(benchmark::State& state) {
  constexpr std::int64_t kLayers = 500;
  const double makespan = BareLoops().run(1);
  const auto seconds_of = [](LayersOnEngine& layers) {
    const auto begin = std::chrono::steady_clock::now();
    layers.run(kLayers);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  LayersOnEngine fast(Again::nothing);
  for (auto _ : state) {
    fast.run(kLayers);
    const double before = seconds_of(fast);
    const std::string said = engine::run_in_simgrid_child([&] {
      LayersOnEngine simgrid(Again::nothing, engine::make_simgrid_engine());
      const double seconds = seconds_of(simgrid);
      return std::abs(simgrid.last_makespan() - makespan) > 1e-9 ? std::string() : std::to_string(seconds);
    });
    const double after = seconds_of(fast);
    if (said.empty()) return state.SkipWithError("wrong makespan");
    state.SetIterationTime(std::stod(said));
    state.counters["of_fast"] = std::stod(said) / (0.5 * (before + after));
  }
  state.SetItemsProcessed(kLayers * static_cast<std::int64_t>(fast.operations()));
}
BENCHMARK(layer_on_simgrid)->Iterations(1)->UseManualTime();
BENCHMARK(layer_resubmitted);
BENCHMARK(layer_built_each_time);
BENCHMARK(layer_ordered_and_built_each_time);
BENCHMARK(layer_by_bare_loops);

}  // namespace
}  // namespace moelab
