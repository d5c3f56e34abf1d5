// The hardware engine where something goes wrong, is cancelled or waits.
#include "hw/executor/hardware_engine.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>

#include "tests/hw/test_machines.hpp"
#include "traces/random.hpp"

namespace moelab::hardware_engine_test {

using namespace moelab::engine;
using namespace moelab::test;
using namespace std::chrono_literals;

namespace {

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

Process submit_and_wait(engine::Engine& engine, Graph& graph) {
  engine.submit(graph, kDemand);
  co_await engine.finished(graph);
}

/// Operation 1 fails while 0 and 2 run, which go on until they are told to stop; 3 depends on 1.
struct FailingRun {
  Graph graph;
  std::atomic<int> stopped = 0, began = 0;
  std::atomic<bool> three_ran = false;

  FailingRun() {
    const Lane lane = graph.lane(0);
    for (int i = 0; i < 4; ++i) graph.add(lane, 0);
    graph.depend(3, 1);
  }
  void run(OpIndex op, const std::stop_token& stop) {
    if (op == 3) three_ran = true;
    ++began;
    if (op == 1) {
      while (began < 3) std::this_thread::yield();
      throw Stopped();
    }
    if (op == 3) return;
    while (!stop.stop_requested()) std::this_thread::sleep_for(100us);
    ++stopped;
  }
};

}  // namespace

TEST_CASE("hardware engine: an error on a thread ends the run with it, when nothing runs any more") {
  for (int i = 0; i < 50; ++i) {
    FailingRun failing;
    auto machine = std::make_unique<ScriptedMachine>();
    machine->on_run = [&](const Graph&, OpIndex op, const std::stop_token& stop) { failing.run(op, stop); };
    const auto engine = engine_of({3}, std::move(machine));
    Process process = submit_and_wait(*engine, failing.graph);
    engine->spawn(process);
    CHECK_THROWS_AS(engine->run(), Stopped);
    CHECK(failing.stopped == 2);  // by then: the graph may go now, before the engine
    CHECK_FALSE(failing.three_ran);
  }
}

TEST_CASE("hardware engine: an error where operations begin or end, or in a process, ends the run") {
  enum class Where { begin, end, process };
  for (const Where where : {Where::begin, Where::end, Where::process}) {
    std::atomic<int> running = 0;
    auto machine = std::make_unique<ScriptedMachine>();
    const auto fail_at = [where](Where here, OpIndex op) {
      if (here == where && op == 2) throw Stopped();
    };
    machine->on_begin = [&](const Graph&, OpIndex op) { fail_at(Where::begin, op); };
    machine->on_end = [&](const Graph&, OpIndex op) { fail_at(Where::end, op); };
    machine->on_run = [&](const Graph&, OpIndex op, const std::stop_token&) {
      ++running;
      std::this_thread::sleep_for(op == 2 ? 100us : 3ms);
      --running;
    };
    const auto engine = engine_of({4}, std::move(machine));
    Graph graph;
    for (int i = 0; i < 4; ++i) graph.add(graph.lane(0), 0);
    const auto play = [](engine::Engine& e, Graph& g, bool fails) -> Process {
      e.submit(g, kDemand);
      co_await e.until(e.now() + 1e-3);
      if (fails) throw Stopped();
      co_await e.finished(g);
    };
    Process process = play(*engine, graph, where == Where::process);
    engine->spawn(process);
    CHECK_THROWS_AS(engine->run(), Stopped);
    CHECK(running == 0);
  }
}

TEST_CASE("hardware engine: what is cancelled does not start, what runs ends") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Witness witness({2});
    const auto engine = engine_of({2}, std::make_unique<WaitingMachine>(witness));
    Graph graph;
    for (int i = 0; i < 10; ++i) graph.add(graph.lane(0), 100e-6);
    const double after = 600e-6 * random.uniform();
    const auto play = [](engine::Engine& e, Graph& g, double wait) -> Process {
      e.submit(g, kDemand);
      co_await e.until(wait);
      e.cancel(g);
      co_await e.finished(g);
    };
    Process process = play(*engine, graph, after);
    engine->spawn(process);
    engine->run();
    REQUIRE(graph.finished());
    std::size_t ran = 0;
    for (OpIndex op = 0; op < graph.size(); ++op) {
      ran += graph.was_started(op);
      CHECK(graph.was_started(op) == (witness.runs.count({&graph, op}) == 1));
      if (graph.was_started(op)) CHECK(graph.end(op) <= graph.finished_at());
    }
    CHECK(ran == witness.runs.size());
    CHECK(ran == engine->operations());
  }
}

TEST_CASE("hardware engine: moments are not early, and nothing else is waited for") {
  const auto engine = engine_of({1}, std::make_unique<ScriptedMachine>());
  std::vector<double> woken;
  const auto play = [](engine::Engine& e, std::vector<double>& times) -> Process {
    for (int i = 1; i <= 20; ++i) {
      co_await e.until(1e-3 * i);
      times.push_back(e.now());
    }
  };
  Process process = play(*engine, woken);
  engine->spawn(process);
  const auto begin = std::chrono::steady_clock::now();
  engine->run();
  CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
  REQUIRE(woken.size() == 20);
  for (std::size_t i = 0; i < woken.size(); ++i) CHECK(woken[i] >= 1e-3 * static_cast<double>(i + 1));
  CHECK_FALSE(engine->alone());  // the clock is not the engine's to move
}

TEST_CASE("hardware engine: several runs of one engine, and times of hand-overs add up") {
  std::vector<HandOffTimes> times;
  auto machine = std::make_unique<ScriptedMachine>();
  machine->on_run = [](const Graph&, OpIndex, const std::stop_token&) { std::this_thread::sleep_for(200us); };
  const auto engine = engine_of({1, 2}, std::move(machine), {0us, &times});
  for (int run = 0; run < 5; ++run) {
    Graph graph;
    for (ResourceId r = 0; r < 2; ++r) graph.add(graph.lane(r), 0);
    Process process = submit_and_wait(*engine, graph);
    engine->spawn(process);
    engine->run();
    CHECK(graph.finished());
  }
  REQUIRE(times.size() == 2);
  for (ResourceId r = 0; r < 2; ++r) {
    CHECK(times[r].operations == 5);
    CHECK(times[r].work_s >= 5 * 200e-6);
    CHECK(times[r].out_s >= 0);
    CHECK(times[r].back_s >= 0);
    // Nothing is left out but what it takes to start the operation.
    const double parts = times[r].out_s + times[r].work_s + times[r].back_s;
    CHECK(parts <= engine->busy_seconds(r) + 1e-9);
  }
}

TEST_CASE("hardware engine: a resource needs a bound on its threads, and threads without work end") {
  const auto engine = engine_of({kUnlimitedSlots}, std::make_unique<ScriptedMachine>());
  CHECK_THROWS_AS(engine->run(), std::invalid_argument);
  { const auto idle = engine_of({3, 4}, std::make_unique<ScriptedMachine>()); }
  const auto nothing_to_do = engine_of({3, 4}, std::make_unique<ScriptedMachine>());
  nothing_to_do->run();
}

}  // namespace moelab::hardware_engine_test
