// The hardware engine on graphs of random shape, whose operations sleep, spin or do nothing: the rules of
// sim/engine/engine.hpp, checked by naive search over the recorded times and over what the threads saw.
#include "hw/executor/hardware_engine.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "sim/engine/engine.hpp"
#include "traces/random.hpp"

using namespace moelab;
using namespace moelab::engine;
using namespace std::chrono_literals;

namespace {

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

/// A graph and its edges, which a Graph does not tell.
struct Shape {
  Graph graph;
  std::vector<std::pair<OpIndex, OpIndex>> edges;  // before, after
  std::set<OpIndex> continuations;
  int priority = kDemand;
  int order = 0;  // of submission
};

void grow(Shape& shape, Random& random, std::size_t resources) {
  const std::size_t size = 1 + random.below(12);
  for (std::size_t i = 0; i < size; ++i) {
    const double seconds = random.below(4) == 0 ? 1e-6 * static_cast<double>(random.below(60)) : 0;
    const auto lane = shape.graph.lane(static_cast<ResourceId>(random.below(resources)));
    if (i > 0 && random.below(8) == 0) {
      const auto before = static_cast<OpIndex>(i - 1);
      shape.continuations.insert(shape.graph.add_continuation(before, seconds));
      shape.edges.emplace_back(before, static_cast<OpIndex>(i));
      continue;
    }
    const OpIndex op = shape.graph.add(lane, seconds);
    for (OpIndex before = 0; before < op; ++before)
      if (random.below(6) == 0) {
        shape.graph.depend(op, before);
        shape.edges.emplace_back(before, op);
      }
  }
}

Process play(engine::Engine& engine, std::vector<std::unique_ptr<Shape>>& shapes, std::size_t from,
             std::size_t every, std::uint64_t seed, int& order) {
  Random random(seed, from, 0);
  for (std::size_t i = from; i < shapes.size(); i += every) {
    if (random.below(4) == 0) co_await engine.until(engine.now() + 1e-6 * random.uniform() * 50);
    shapes[i]->order = order++;
    engine.submit(shapes[i]->graph, shapes[i]->priority);
    if (random.below(3) != 0) co_await engine.finished(shapes[i]->graph);
  }
  for (std::size_t i = from; i < shapes.size(); i += every) co_await engine.finished(shapes[i]->graph);
}

/// One operation as recorded.
struct Did {
  const Shape* shape;
  OpIndex op;
  ResourceId resource;
  double ready, start, end;
  bool continues;
};

std::vector<Did> record_of(const std::vector<std::unique_ptr<Shape>>& shapes) {
  std::vector<Did> all;
  for (const auto& shape : shapes)
    for (OpIndex op = 0; op < shape->graph.size(); ++op) {
      double ready = shape->graph.submitted_since_epoch();
      for (const auto& [before, after] : shape->edges)
        if (after == op) ready = std::max(ready, shape->graph.end(before));
      all.push_back({shape.get(), op, shape->graph.resource(op), ready, shape->graph.start(op),
                     shape->graph.end(op), shape->continuations.count(op) > 0});
    }
  return all;
}

bool more_urgent(const Did& a, const Did& b) {
  if (a.shape->priority != b.shape->priority) return a.shape->priority < b.shape->priority;
  if (a.shape->order != b.shape->order) return a.shape->order < b.shape->order;
  return a.op < b.op;
}

/// Times of decisions are instants at which completions come before starts, so "ready" and "running" are at
/// an instant after all that happens there.
void check_rules(const std::vector<Did>& all, const std::vector<std::uint32_t>& slots) {
  bool after_dependencies = true, urgent_first = true, never_too_many = true, work_conserving = true,
       on_the_slot = true;
  for (const Did& x : all) {
    after_dependencies &= x.start >= x.ready && x.end >= x.start;
    if (x.continues) on_the_slot &= x.start == x.ready;
    std::uint32_t running = 0;
    for (const Did& y : all) {
      if (y.resource != x.resource) continue;
      // y was ready when x started, more urgent, and still waiting after that.
      if (!x.continues && !y.continues && more_urgent(y, x) && y.ready <= x.start && y.start > x.start)
        urgent_first = false;
      running += y.start <= x.ready && y.end > x.ready ? 1 : 0;
    }
    never_too_many &= running <= slots[x.resource];
    if (x.start > x.ready) work_conserving &= running == slots[x.resource];
  }
  CHECK(after_dependencies);
  CHECK(urgent_first);
  CHECK(never_too_many);
  CHECK(work_conserving);
  CHECK(on_the_slot);
}

std::unique_ptr<engine::Engine> engine_of(const std::vector<std::uint32_t>& slots,
                                          std::unique_ptr<Machine> machine,
                                          const HardwareOptions& options = {}) {
  auto engine = make_hardware_engine(std::move(machine), options);
  for (const std::uint32_t n : slots) engine->add_resource("resource", n);
  return engine;
}

struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

}  // namespace

TEST_CASE("hardware engine: thousands of random graphs obey the rules") {
  constexpr std::size_t kRuns = 40, kGraphs = 80;
  std::uint64_t operations = 0;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<std::uint32_t> slots(1 + random.below(4));
    for (std::uint32_t& n : slots) n = static_cast<std::uint32_t>(1 + random.below(3));
    Witness witness(slots);
    std::vector<std::unique_ptr<Shape>> shapes;
    for (std::size_t i = 0; i < kGraphs; ++i) {
      shapes.push_back(std::make_unique<Shape>());
      grow(*shapes.back(), random, slots.size());
      shapes.back()->priority = random.below(2) == 0 ? kDemand : kPrefetch;
    }
    const HardwareOptions options{seed % 4 == 0 ? 5us : 0us, nullptr};
    const auto engine = engine_of(slots, std::make_unique<WaitingMachine>(witness), options);
    int order = 0;
    std::vector<Process> processes;
    const std::size_t loops = 1 + random.below(3);
    for (std::size_t p = 0; p < loops; ++p) {
      processes.push_back(play(*engine, shapes, p, loops, seed, order));
    }
    for (Process& process : processes) engine->spawn(process);
    engine->run();

    const std::vector<Did> all = record_of(shapes);
    operations += all.size();
    check_rules(all, slots);
    CHECK_FALSE(witness.too_many);
    CHECK(engine->operations() == all.size());
    CHECK(witness.runs.size() == all.size());
    bool all_slept = true;
    for (const Did& x : all) all_slept &= x.end - x.start >= x.shape->graph.seconds(x.op);
    CHECK(all_slept);
  }
  CHECK(operations > kRuns * kGraphs);
}

namespace {

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

TEST_CASE("hardware engine: several runs of one engine; times of hand-overs add up") {
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

TEST_CASE("hardware engine: a resource needs a bound on its threads; threads without work end") {
  const auto engine = engine_of({kUnlimitedSlots}, std::make_unique<ScriptedMachine>());
  CHECK_THROWS_AS(engine->run(), std::invalid_argument);
  { const auto idle = engine_of({3, 4}, std::make_unique<ScriptedMachine>()); }
  const auto nothing_to_do = engine_of({3, 4}, std::make_unique<ScriptedMachine>());
  nothing_to_do->run();
}
