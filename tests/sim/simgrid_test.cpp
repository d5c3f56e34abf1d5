// SimGrid as the oracle for time: where nothing is shared, both executors agree on every operation; where
// capacities are shared, SimGrid gives what the closed forms say. One SimGrid engine a process, so every case
// runs in a child.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <iostream>
#include <sstream>

#include "models/input_error.hpp"
#include "sim/child_process.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/engine_plans.hpp"

namespace moelab::simgrid_test {
namespace {

using namespace moelab::engine_reference;

std::string compare(const EnginePlan& plan) {
  const Records fast = PlayedPlan(plan).run();
  if (has_near_ties(fast)) return "near ties";
  return difference(fast, PlayedPlan(plan, engine::make_simgrid_engine()).run());
}

/// Whether some operation uses a capacity that another resource can slow.
bool interferes(const EnginePlan& plan) {
  return std::any_of(plan.interferences.begin(), plan.interferences.end(), [&](const PlanInterference& i) {
    return i.factor > 1 && std::any_of(plan.graphs.begin(), plan.graphs.end(), [&](const PlanGraph& g) {
             return std::any_of(g.ops.begin(), g.ops.end(), [&](const PlanOp& op) {
               return op.capacity == i.capacity && op.shared_seconds > 0;
             });
           });
  });
}

/// Ends of operations that all start at time 0, each on a slot of its own, under SimGrid.
std::vector<double> shared_ends(const std::vector<double>& slowdown, const std::vector<PlanOp>& ops) {
  EnginePlan plan;
  plan.slots = {kNone};
  plan.slowdowns = {slowdown};
  plan.graphs = {{ops, 0}};
  plan.steps = {{{Step::submit, 0, 0, 0}}};
  const std::string text = engine::run_in_simgrid_child([&] {
    std::ostringstream out;
    out.precision(17);
    const Records records = PlayedPlan(plan, engine::make_simgrid_engine()).run();
    for (const OpRecord& op : records.graphs[0].ops) out << op.end << " ";
    return out.str();
  });
  std::istringstream in(text);
  std::vector<double> ends;
  for (double x; in >> x;) ends.push_back(x);
  return ends;
}

PlanOp sharing(double seconds, double shared) {
  PlanOp op;
  op.seconds = seconds;
  op.capacity = 0;
  op.shared_seconds = shared;
  return op;
}

}  // namespace

namespace {

constexpr int kPlans = moelab::test::random_runs(2400, 100);  // each in a process of its own
constexpr int kEnough = moelab::test::random_runs(2000, 75);

/// Both executors on a plan a seed, given by `draw`.
template <class Draw>
void compare_plans(const std::string& what, Draw draw) {
  int counted = 0, near_ties = 0;
  for (int seed = 0; seed < kPlans; ++seed) {
    const EnginePlan plan = draw(static_cast<std::uint64_t>(seed));
    const std::string said = engine::run_in_simgrid_child([&] { return compare(plan); });
    if (said == "near ties") {
      ++near_ties;
      continue;
    }
    ++counted;
    INFO("seed " << seed);
    REQUIRE(said == "");
  }
  std::cout << "simgrid against fast, " << what << ": " << counted << " random plans agree, " << near_ties
            << " not counted (completions within " << 4 * kPrecision << " s)\n";
  CHECK(counted >= kEnough);
}

}  // namespace

TEST_CASE("simgrid: without shared capacity both executors agree on every operation") {
  compare_plans("nothing shared", [](std::uint64_t seed) {
    EnginePlan plan = without_sharing(RandomPlan(seed).draw());
    return seed % 2 == 1 ? with_rough_times(std::move(plan), seed) : plan;
  });
}

TEST_CASE("simgrid: with shared capacity both executors agree on every operation") {
  compare_plans("capacities shared", [](std::uint64_t seed) {
    EnginePlan plan = with_rough_times(RandomPlan(seed).draw(), seed);
    plan.interferences.clear();
    return plan;
  });
}

TEST_CASE("simgrid: with interference both executors agree on every operation") {
  std::uint64_t draw = 0;  // plans without interference are passed over
  int disturbed = 0;
  compare_plans("interference", [&](std::uint64_t seed) {
    EnginePlan plan;
    do plan = with_rough_times(RandomPlan(draw++).draw(), seed);
    while (!interferes(plan));
    const Records with = PlayedPlan(plan).run();
    EnginePlan without = plan;
    without.interferences.clear();
    if (!difference(with, PlayedPlan(without).run()).empty()) ++disturbed;
    return plan;
  });
  CHECK(disturbed > kPlans / 4);  // it made a difference to them
}

TEST_CASE("simgrid: interference slows what is slower than the capacity, from its start or on the way") {
  // A capacity of 1 a second, slowed to a third while `busy` is, from 2 to 5. Alone the operation moves
  // `amount` in `seconds` on it.
  const auto end = [](double starts, double seconds, double amount) {
    return std::stod(engine::run_in_simgrid_child([&] {
      const auto engine = engine::make_simgrid_engine();
      const auto io = engine->add_resource("io", 1), busy = engine->add_resource("busy", 1);
      const auto capacity = engine->add_capacity("capacity", {});
      engine->add_interference({capacity, busy, 3});
      engine::Graph graph;
      const auto wait = graph.add(graph.lane(busy), 3), idle = graph.add(graph.lane(io), 2);
      graph.depend(wait, idle);
      engine::Graph reads;
      const auto read = reads.add(reads.lane(io), seconds);
      reads.share(read, capacity, seconds, amount);
      const auto play = [&]() -> engine::Process {
        engine->submit(graph, engine::kDemand);
        co_await engine->until(starts);
        engine->submit(reads, engine::kDemand);
        co_await engine->finished(reads);
      };
      engine::Process process = play();
      engine->spawn(process);
      engine->run();
      std::ostringstream out;
      out.precision(17);
      out << reads.end(read);
      return out.str();
    }));
  };
  CHECK(end(3, 0.5, 0.5) == Approx(3 + 3 * 0.5).epsilon(1e-9));
  CHECK(end(3, 2, 2) == Approx(5 + 2 - (5 - 3) / 3.0).epsilon(1e-9));    // the rest at full speed
  CHECK(end(3, 2, 0.1) == Approx(5 + 2 - (5 - 3) / 3.0).epsilon(1e-9));  // a twentieth of the capacity
  CHECK(end(5, 2, 0.1) == Approx(5 + 2).epsilon(1e-9));
}

TEST_CASE("simgrid: of interference and what is beyond, the slower one counts") {
  // A disk of 1 a second whose reads take `factor` times as long beside `busy`, which moves 6 a second
  // through a memory of `memory`: alone the read would take 2.
  const auto end = [](double factor, double memory_bandwidth) {
    return std::stod(engine::run_in_simgrid_child([&] {
      const auto engine = engine::make_simgrid_engine();
      const auto io = engine->add_resource("io", 1), busy = engine->add_resource("busy", 1);
      const auto memory = engine->add_capacity("memory", {.bandwidth = memory_bandwidth});
      const auto disk = engine->add_capacity("disk", {.beyond = memory});
      engine->add_interference({disk, busy, factor});
      engine::Graph graph;
      const auto read = graph.add(graph.lane(io), 2), work = graph.add(graph.lane(busy), 50);
      graph.share(read, disk, 2);
      graph.share(work, memory, 50, 300);
      const auto play = [&]() -> engine::Process {
        engine->submit(graph, engine::kDemand);
        co_await engine->finished(graph);
      };
      engine::Process process = play();
      engine->spawn(process);
      engine->run();
      return std::to_string(graph.end(read));
    }));
  };
  // Max-min: the read gets min(1 / factor, half the memory).
  CHECK(end(1.25, 100) == Approx(2 * 1.25).epsilon(1e-6));
  CHECK(end(1.25, 1) == Approx(2 / 0.5).epsilon(1e-6));
  CHECK(end(4, 1) == Approx(2 * 4).epsilon(1e-6));
}

TEST_CASE("simgrid: flows that share a link") {
  // Two equal flows of 1 s each get half the link: both end at 2.
  CHECK(shared_ends({1, 2}, {sharing(1, 1), sharing(1, 1)}) == std::vector<double>{2, 2});
  // 1 s and 3 s: halves until the short one is done at 2 (1 s of the long one done), then the long one alone:
  // 2 + 2.
  const auto two = shared_ends({1, 2}, {sharing(1, 1), sharing(3, 3)});
  CHECK(two[0] == Approx(2).epsilon(1e-9));
  CHECK(two[1] == Approx(4).epsilon(1e-9));
}

TEST_CASE("simgrid: a fixed latency is not stretched") {
  // Latency 0.5, then 1 s of the link, twice at once: 0.5 + 2.
  const auto ends = shared_ends({1, 2}, {sharing(1.5, 1), sharing(1.5, 1)});
  CHECK(ends[0] == Approx(2.5).epsilon(1e-9));
  CHECK(ends[1] == Approx(2.5).epsilon(1e-9));
  // One is 0.5 ahead: it has the link alone for 0.5 s, then both share: the first ends at 0.5 + 2 * 0.5
  // = 1.5; the other has 0.5 left then and ends at 2.
  const auto offset = shared_ends({1, 2}, {sharing(1, 1), sharing(1.5, 1)});
  CHECK(offset[0] == Approx(1.5).epsilon(1e-9));
  CHECK(offset[1] == Approx(2).epsilon(1e-9));
}

TEST_CASE("simgrid: a link whose rate depends on the number of flows") {
  // slowdown {1, 1, 1.5}: two flows run at full speed each, three at 1/1.5. Three flows of 1 s: all end
  // at 1.5.
  for (const double end : shared_ends({1, 1, 1.5}, {sharing(1, 1), sharing(1, 1), sharing(1, 1)}))
    CHECK(end == Approx(1.5).epsilon(1e-9));
  for (const double end : shared_ends({1, 1, 1.5}, {sharing(1, 1), sharing(1, 1)}))
    CHECK(end == Approx(1).epsilon(1e-9));
  // Beyond the table the slowdown grows linearly: four flows at 1.5 * 4 / 3 = 2.
  for (const double end : shared_ends({1, 1, 1.5}, std::vector<PlanOp>(4, sharing(1, 1))))
    CHECK(end == Approx(2).epsilon(1e-9));
}

TEST_CASE("run_in_child brings back text and errors") {
  CHECK(run_in_child([] { return std::string(300'000, 'x'); }).size() == 300'000);
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  CHECK((run_in_child([&] { return bytes; }) == bytes));
  CHECK(run_in_child([] { return std::string(); }).empty());
  CHECK_THROWS_AS(run_in_child([]() -> std::string { throw InputError("f.yaml", "wrong"); }), InputError);
  CHECK_THROWS_AS(run_in_child([]() -> std::string { throw InputError("\xff.yaml", "wrong"); }), InputError);
  CHECK_THROWS_WITH(run_in_child([]() -> std::string { throw std::runtime_error("broken"); }), "broken");
  CHECK_THROWS_AS(run_in_child([]() -> std::string { std::_Exit(3); }), std::runtime_error);
}

}  // namespace moelab::simgrid_test
