// What it costs to hand an operation to a thread and back: a chain of operations that do nothing, on one
// thread or going round over four, by the hardware engine. See README.md.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "hw/executor/hardware_engine.hpp"

namespace moelab {
namespace {

constexpr std::size_t kOperations = 500;

class IdleMachine final : public Machine {
 public:
  void begin(const engine::Graph&, engine::OpIndex) override {}
  void run(const engine::Graph&, engine::OpIndex, std::stop_token) override {}
  void end(const engine::Graph&, engine::OpIndex) override {}
};

engine::Process play(engine::Engine& engine, engine::Graph& graph) {
  engine.submit(graph, engine::kDemand);
  co_await engine.finished(graph);
}

/// Arguments: threads, and microseconds that a waiting thread stays awake.
void hand_off(benchmark::State& state) {
  const auto threads = static_cast<std::uint32_t>(state.range(0));
  std::vector<HandOffTimes> times;
  const auto engine = make_hardware_engine(std::make_unique<IdleMachine>(),
                                           {std::chrono::microseconds(state.range(1)), &times});
  for (std::uint32_t r = 0; r < threads; ++r) engine->add_resource("thread", 1);
  engine::Graph chain;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const engine::OpIndex op = chain.add(chain.lane(static_cast<engine::ResourceId>(i % threads)), 0);
    if (op > 0) chain.depend(op, op - 1);
  }
  for ([[maybe_unused]] auto _ : state) {
    engine::Process process = play(*engine, chain);
    engine->spawn(process);
    engine->run();
    if (chain.started() != kOperations) throw std::logic_error("hand_off: operations were left out");
  }
  HandOffTimes all;
  for (const HandOffTimes& t : times) {
    all.operations += t.operations;
    all.out_s += t.out_s;
    all.back_s += t.back_s;
  }
  const auto operations = static_cast<double>(all.operations);
  state.counters["out_us"] = all.out_s / operations * 1e6;
  state.counters["back_us"] = all.back_s / operations * 1e6;
  state.SetItemsProcessed(static_cast<std::int64_t>(all.operations));
}
BENCHMARK(hand_off)->ArgsProduct({{1, 4}, {0, 20}})->ArgNames({"threads", "awake_us"})->UseRealTime();

}  // namespace
}  // namespace moelab
