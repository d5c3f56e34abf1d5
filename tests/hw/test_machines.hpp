// Machines for tests of the hardware engine: one that waits and watches, one that calls back.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "hw/executor/hardware_engine.hpp"

namespace moelab::test {

using engine::Graph;
using engine::OpIndex;
using engine::ResourceId;

/// What happened on the threads.
struct Witness {
  explicit Witness(std::vector<std::uint32_t> slots_of) : slots(std::move(slots_of)), busy(slots.size()) {}
  std::vector<std::uint32_t> slots;  // by resource
  std::deque<std::atomic<std::uint32_t>> busy;
  std::atomic<bool> too_many = false;
  std::mutex mutex;
  std::set<std::pair<const Graph*, OpIndex>> done;       // run() has returned
  std::map<std::pair<const Graph*, OpIndex>, int> runs;  // how often it began
};

/// An operation takes graph.seconds() of the wall's clock.
class WaitingMachine : public Machine {
 public:
  explicit WaitingMachine(Witness& witness) : witness_(witness) {}
  void begin(const Graph&, OpIndex) override {}
  void run(const Graph& graph, OpIndex op, std::stop_token) override {
    const ResourceId resource = graph.resource(op);
    if (++witness_.busy[resource] > witness_.slots[resource]) witness_.too_many = true;
    {
      const std::lock_guard lock(witness_.mutex);
      ++witness_.runs[{&graph, op}];
    }
    if (graph.seconds(op) > 0) std::this_thread::sleep_for(std::chrono::duration<double>(graph.seconds(op)));
    const std::lock_guard lock(witness_.mutex);
    witness_.done.insert({&graph, op});
    --witness_.busy[resource];
  }
  void end(const Graph&, OpIndex) override {}

 private:
  Witness& witness_;
};

/// Calls back wherever the engine calls it.
class ScriptedMachine : public Machine {
 public:
  std::function<void(const Graph&, OpIndex)> on_begin, on_end;
  std::function<void(const Graph&, OpIndex, const std::stop_token&)> on_run;
  void begin(const Graph& graph, OpIndex op) override {
    if (on_begin) on_begin(graph, op);
  }
  void run(const Graph& graph, OpIndex op, std::stop_token stop) override {
    if (on_run) on_run(graph, op, stop);
  }
  void end(const Graph& graph, OpIndex op) override {
    if (on_end) on_end(graph, op);
  }
};

inline std::unique_ptr<engine::Engine> engine_of(const std::vector<std::uint32_t>& slots,
                                                 std::unique_ptr<Machine> machine,
                                                 const HardwareOptions& options = {}) {
  auto engine = make_hardware_engine(std::move(machine), options);
  for (const std::uint32_t n : slots) engine->add_resource("resource", n);
  return engine;
}

}  // namespace moelab::test
