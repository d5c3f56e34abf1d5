// All times are whole numbers of seconds, so sums are exact and every comparison is for equality.
#include "sim/engine/engine.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/random_runs.hpp"
#include "tests/sim/alone.hpp"
#include "tests/sim/engine_plans.hpp"
#include "tests/sim/engine_record_check.hpp"

namespace moelab::engine_test {

using namespace moelab::engine;
using namespace moelab::engine_reference;
using test::run_alone;

namespace {

Process play_one(Engine& engine, Graph& graph) {
  engine.submit(graph, kDemand);
  co_await engine.finished(graph);
}

using Said = std::vector<std::pair<std::string, double>>;
Process say_at(Engine& engine, double time, std::string what, Said& said) {
  co_await engine.until(time);
  said.emplace_back(what, engine.now());
}

}  // namespace

TEST_CASE("engine: random plans run as the naive simulation says") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(10'000u, 500u); ++seed) {
    const EnginePlan plan = without_sharing(RandomPlan(seed).draw());
    const Records expected = NaiveEngine(plan).run();
    const Records records = PlayedPlan(plan).run();
    CAPTURE(seed);
    if (!(records == expected)) {
      for (std::size_t g = 0; g < plan.graphs.size(); ++g)
        for (std::size_t i = 0; i < plan.graphs[g].ops.size(); ++i) {
          const OpRecord &is = records.graphs[g].ops[i], &was = expected.graphs[g].ops[i];
          CAPTURE(g, i, is.start, was.start, is.end, was.end, is.last_dependency, was.last_dependency);
          REQUIRE(is == was);
        }
      REQUIRE(records.busy_seconds == expected.busy_seconds);
      REQUIRE(records == expected);
    }
    const RecordCheck check(plan, records);
    if (!check.wrong().empty()) FAIL(check.wrong());
  }
}

TEST_CASE("engine: with capacities and interference random plans run as the naive simulation says") {
  constexpr int kPlans = moelab::test::random_runs(10'000, 500);
  int compared = 0, by_users = 0;
  for (std::uint64_t seed = 1; seed <= kPlans; ++seed) {
    const EnginePlan plan = with_rough_times(RandomPlan(seed).draw(), seed);
    const Records records = PlayedPlan(plan).run();
    if (has_near_ties(records)) continue;  // which of two ends first is then a matter of rounding
    ++compared;
    CAPTURE(seed);
    REQUIRE(difference(records, NaiveEngine(plan).run()) == "");
    EnginePlan without = plan;
    std::erase_if(without.interferences, [](const PlanInterference& i) { return i.by_users; });
    by_users += !difference(records, PlayedPlan(without).run()).empty();
  }
  CHECK(compared > kPlans * 3 / 4);
  CHECK(by_users > kPlans / 20);  // it made a difference to them
}

TEST_CASE("engine: a chain takes the sum of its times") {
  const auto engine = make_fast_engine();
  const ResourceId a = engine->add_resource("a", 1), b = engine->add_resource("b", 3);
  Graph graph;
  double sum = 0;
  for (OpIndex i = 0; i < 100; ++i) {
    graph.add(graph.lane(i % 3 == 0 ? a : b), i % 7);
    if (i > 0) graph.depend(i, i - 1);
  }
  run_alone(*engine, graph);
  for (OpIndex i = 0; i < 100; ++i) {
    REQUIRE(graph.start(i) == sum);
    sum += i % 7;
    REQUIRE(graph.end(i) == sum);
    REQUIRE(graph.last_dependency(i) == (i == 0 ? kNoOp : i - 1));
  }
  CHECK(graph.finished_at() == sum);
  CHECK(graph.last() == 99);
  CHECK(graph.started() == 100);
  CHECK(engine->now() == sum);
  CHECK(engine->operations() == 100);
  CHECK(engine->busy_seconds(a) + engine->busy_seconds(b) == sum);
}

TEST_CASE("engine: fork and join takes the longest branch") {
  const auto engine = make_fast_engine();
  const ResourceId wide = engine->add_resource("wide", kUnlimitedSlots);
  Graph graph;
  const Lane lane = graph.lane(wide);
  const OpIndex fork = graph.add(lane, 2);
  std::vector<OpIndex> branches;
  for (int i = 0; i < 500; ++i) {
    branches.push_back(graph.add(lane, (i * 37) % 501));
    graph.depend(branches.back(), fork);
  }
  const OpIndex join = graph.add(lane, 3);
  for (const OpIndex branch : branches) graph.depend(join, branch);
  run_alone(*engine, graph);
  // 37 and 501 have no common divisor, so (37 i) mod 501 takes every value but one below 501; it is 500 where
  // 37 i = -1: 37 x 176 = 13 x 501 - 1.
  CHECK(graph.finished_at() == 2 + 500 + 3);
  CHECK(graph.last() == join);
  CHECK(graph.last_dependency(join) == branches[176]);
}

TEST_CASE("engine: n equal operations on m slots take ceil(n / m) turns") {
  for (std::uint32_t slots = 1; slots <= 9; ++slots)
    for (OpIndex count = 1; count <= 40; ++count) {
      const auto engine = make_fast_engine();
      const ResourceId resource = engine->add_resource("r", slots);
      Graph graph;
      for (OpIndex i = 0; i < count; ++i) graph.add(graph.lane(resource), 5);
      run_alone(*engine, graph);
      REQUIRE(graph.finished_at() == 5 * ((count + slots - 1) / slots));
      for (OpIndex i = 0; i < count; ++i) REQUIRE(graph.start(i) == 5 * (i / slots));
      REQUIRE(engine->busy_seconds(resource) == 5 * count);
    }
}

TEST_CASE("engine: what can never finish is reported") {
  const auto engine = make_fast_engine();
  const ResourceId resource = engine->add_resource("r", 1);
  Graph graph;
  for (int i = 0; i < 4; ++i) graph.add(graph.lane(resource), 1);
  graph.depend(1, 0);
  graph.depend(2, 1);
  graph.depend(3, 2);
  SECTION("a cycle") {
    graph.depend(1, 3);
  }
  SECTION("an operation that waits for itself") {
    graph.depend(2, 2);
  }
  Process process = play_one(*engine, graph);
  engine->spawn(process);
  CHECK_THROWS_AS(engine->run(), std::logic_error);
  CHECK(graph.was_started(0));
  CHECK_FALSE(graph.was_started(2));
  CHECK_FALSE(process.done());
}

TEST_CASE("engine: an empty graph is finished at once") {
  const auto engine = make_fast_engine();
  Graph empty, other;
  Said said;
  const auto play = [&]() -> Process {
    co_await engine->until(3);
    engine->submit(empty, kDemand);
    CHECK(empty.finished());
    co_await engine->finished(empty);
    said.emplace_back("empty", engine->now());
  };
  Process process = play();
  engine->spawn(process);
  engine->run();
  CHECK(said == Said{{"empty", 3}});
  CHECK(empty.submitted_at() == 3);
  CHECK(empty.finished_at() == 3);
  CHECK(empty.last() == kNoOp);
  CHECK(process.done());
}

TEST_CASE("engine: what a process throws leaves run") {
  const auto engine = make_fast_engine();
  const ResourceId resource = engine->add_resource("r", 1);
  Graph graph;
  graph.add(graph.lane(resource), 5);
  Said said;
  const auto fail = [&]() -> Process {
    co_await engine->until(3);
    throw std::runtime_error("third second");
  };
  Process failing = fail(), later = say_at(*engine, 4, "later", said), working = play_one(*engine, graph);
  for (Process* process : {&failing, &later, &working}) engine->spawn(*process);
  CHECK_THROWS_WITH(engine->run(), "third second");
  CHECK(engine->now() == 3);
  CHECK(said.empty());
  CHECK_FALSE(graph.finished());
}

TEST_CASE("engine: two processes share the resources") {
  // Each submits graphs of two operations of 2 s, one after the other, to one slot. At 0 the first to spawn
  // comes first; from then on the graph submitted earlier does: a0 a0 b0 b0 a1 a1 b1 b1 ...
  const auto engine = make_fast_engine();
  const ResourceId resource = engine->add_resource("r", 1);
  std::vector<double> ends[2];
  Graph graphs[2];
  const auto play = [&](std::size_t who) -> Process {
    Graph& graph = graphs[who];
    for (int i = 0; i < 2; ++i) graph.add(graph.lane(resource), 2);
    for (int round = 0; round < 3; ++round) {
      engine->submit(graph, kDemand);
      co_await engine->finished(graph);
      ends[who].push_back(graph.finished_at());
    }
  };
  Process a = play(0), b = play(1);
  engine->spawn(a);
  engine->spawn(b);
  engine->run();
  CHECK(ends[0] == std::vector<double>{4, 12, 20});
  CHECK(ends[1] == std::vector<double>{8, 16, 24});
}

TEST_CASE("engine: moments come in order") {
  const auto engine = make_fast_engine();
  Said said;
  std::vector<Process> processes;
  for (const int time : {5, 1, 3, 5, 1, 0, -2})
    processes.push_back(say_at(*engine, time, "#" + std::to_string(processes.size()), said));
  for (Process& process : processes) engine->spawn(process);
  engine->run();
  // A moment that is past is no wait; equal moments come in the order in which the waits began.
  CHECK(said == Said{{"#5", 0}, {"#6", 0}, {"#1", 1}, {"#4", 1}, {"#2", 3}, {"#0", 5}, {"#3", 5}});
}

TEST_CASE("engine: a process that is spawned while the engine runs begins at that instant") {
  const auto engine = make_fast_engine();
  Said said;
  Process late = say_at(*engine, 0, "late", said);
  const auto spawn = [&]() -> Process {
    co_await engine->until(7);
    engine->spawn(late);
    said.emplace_back("spawned", engine->now());
  };
  Process process = spawn();
  engine->spawn(process);
  engine->run();
  CHECK(said == Said{{"spawned", 7}, {"late", 7}});
}

TEST_CASE("engine: what takes no time ends in the next round of its instant") {
  // Slot 1. At 4, x (urgent) and y compete after the ends of a and of z, where z takes no time and starts
  // when a ends: in the first round of 4 only y is ready, so y goes first although x is more urgent.
  const auto engine = make_fast_engine();
  const ResourceId one = engine->add_resource("one", 1), wide = engine->add_resource("wide", 2);
  Graph graph;
  const OpIndex x = graph.add(graph.lane(one), 1), y = graph.add(graph.lane(one), 1);
  const OpIndex a = graph.add(graph.lane(wide), 4), z = graph.add(graph.lane(wide), 0);
  graph.depend(z, a);
  graph.depend(x, z);
  graph.depend(y, a);
  run_alone(*engine, graph);
  CHECK(graph.end(z) == 4);
  CHECK(graph.start(y) == 4);
  CHECK(graph.start(x) == 5);
}

TEST_CASE("engine: a graph that is run again takes the same times") {
  const auto engine = make_fast_engine();
  const ResourceId a = engine->add_resource("a", 2), b = engine->add_resource("b", 1);
  const auto build = [&](Graph& graph, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (OpIndex i = 0; i < 150; ++i) {
      graph.add(graph.lane(random() % 2 == 0 ? a : b), static_cast<double>(random() % 5));
      for (int n = 0; n < 2 && i > 0; ++n) graph.depend(i, static_cast<OpIndex>(random() % i));
    }
  };
  Graph graph;
  std::vector<std::vector<double>> starts;
  const auto play = [&]() -> Process {
    for (int round = 0; round < 6; ++round) {
      if (round % 2 == 0) {  // built again: once after a larger graph, once after a smaller one
        graph.clear();
        for (int i = 0; i < (round == 2 ? 500 : 3); ++i) graph.add(graph.lane(b), 1);
        engine->submit(graph, kDemand);
        co_await engine->finished(graph);
        graph.clear();
        build(graph, 99);
      }
      const double begin = engine->now();
      engine->submit(graph, kDemand);
      CHECK_FALSE(graph.finished());
      co_await engine->finished(graph);
      starts.emplace_back();
      for (OpIndex i = 0; i < graph.size(); ++i) starts.back().push_back(graph.start(i) - begin);
      starts.back().push_back(graph.finished_at() - begin);
    }
  };
  Process process = play();
  engine->spawn(process);
  engine->run();
  REQUIRE(starts.size() == 6);
  for (const auto& times : starts) CHECK(times == starts.front());
}

TEST_CASE("engine: a hundred thousand operations on one lane, the most urgent ready one first") {
  // Operation i of `gates` ends at i + 1 and makes operation `released[i]` of `work` ready. `work` has one
  // slot and 2 s an operation, so a backlog grows; a sorted set is the reference for what starts next.
  constexpr OpIndex kCount = 50'000;
  const auto engine = make_fast_engine();
  const ResourceId gates = engine->add_resource("gates", 1), work = engine->add_resource("work", 1);
  Graph graph;
  for (OpIndex i = 0; i < kCount; ++i) graph.add(graph.lane(gates), 1);
  std::vector<OpIndex> released(kCount);
  for (OpIndex i = 0; i < kCount; ++i) {
    released[i] = kCount + static_cast<OpIndex>((std::uint64_t{i} * 30'011 + 7) % kCount);  // 30,011 is prime
    graph.add(graph.lane(work), 2);
  }
  for (OpIndex i = 0; i < kCount; ++i) graph.depend(released[i], i);
  run_alone(*engine, graph);

  std::set<OpIndex> ready;
  OpIndex next = 0;
  double now = 1, wrong = 0;
  for (OpIndex done = 0; done < kCount; ++done, now += 2) {
    for (; next < kCount && next + 1 <= now; ++next) ready.insert(released[next]);
    wrong += graph.start(*ready.begin()) != now;
    ready.erase(ready.begin());
  }
  CHECK(wrong == 0);
  CHECK(graph.finished_at() == 1 + 2.0 * kCount);
}

TEST_CASE("engine: interference sees what runs on a resource of unlimited slots") {
  const auto engine = make_fast_engine();
  const ResourceId io = engine->add_resource("io", 1), wide = engine->add_resource("wide", kUnlimitedSlots);
  const CapacityId ssd = engine->add_capacity("ssd", {});
  engine->add_interference({ssd, wide, 3});
  Graph graph;
  graph.add(graph.lane(wide), 10);
  const OpIndex wait = graph.add(graph.lane(io), 1), read = graph.add(graph.lane(io), 2);
  graph.depend(read, wait);
  graph.share(read, ssd);
  run_alone(*engine, graph);
  CHECK(graph.end(read) == 1 + 2 * 3);
}

TEST_CASE("engine: a cancelled graph is free to be used again while what it waited for still runs") {
  const auto engine = make_fast_engine();
  const ResourceId resource = engine->add_resource("r", 4);
  Graph slow, graph;
  const auto play = [&]() -> Process {
    slow.add(slow.lane(resource), 10);
    engine->submit(slow, kDemand);
    graph.add(graph.lane(resource), 1);
    graph.depend_on(0, slow);
    engine->submit(graph, kDemand);
    co_await engine->until(2);
    engine->cancel(graph);
    CHECK(graph.finished());
    CHECK(graph.finished_at() == 2);
    graph.clear();
    graph.add(graph.lane(resource), 20);  // ends at 22, and makes the next one ready
    graph.add(graph.lane(resource), 1);
    graph.depend(1, 0);
    engine->submit(graph, kDemand);
    co_await engine->finished(graph);
  };
  Process process = play();
  engine->spawn(process);
  engine->run();
  CHECK(graph.start(1) == 22);
}

TEST_CASE("engine: to cancel a graph that is not submitted, or has finished, does nothing") {
  const auto engine = make_fast_engine();
  Graph graph;
  const auto lane = graph.lane(engine->add_resource("r", 1));
  const OpIndex first = graph.add(lane, 3);
  graph.depend(graph.add(lane, 4), first);
  engine->cancel(graph);
  run_alone(*engine, graph);
  CHECK(graph.finished_at() == 3 + 4);
  engine->cancel(graph);
  CHECK(graph.finished());
  CHECK(graph.finished_at() == 3 + 4);
  CHECK(engine->now() == 3 + 4);
}

TEST_CASE("engine: what depends on an operation can be asked") {
  std::mt19937_64 random(5);
  for (int round = 0; round < moelab::test::random_runs(200); ++round) {
    const auto engine = make_fast_engine();
    Graph graph;
    const auto lane = graph.lane(engine->add_resource("r", 1));
    std::map<OpIndex, std::multiset<OpIndex>> expected;
    for (OpIndex op = 0; op < 12; ++op) {
      graph.add(lane, 1);
      for (OpIndex before = 0; before < op; ++before) {
        if (random() % 3 != 0) continue;
        graph.depend(op, before);
        expected[before].insert(op);
      }
    }
    for (OpIndex op = 0; op < 12; ++op) {
      std::multiset<OpIndex> said;
      graph.for_dependents(op, [&](OpIndex after) { said.insert(after); });
      CHECK(said == expected[op]);
    }
  }
}

TEST_CASE("engine: users of a capacity share it at every instant") {
  // 2 s each, from 0 and from 1, and two get half each: the first has 1 s of its 2 by then and the other at
  // 3; the second has 1 s by then and the capacity alone for the rest.
  const auto engine = make_fast_engine();
  const ResourceId wide = engine->add_resource("wide", kUnlimitedSlots);
  const CapacityId ssd = engine->add_capacity("ssd", {});
  Graph graph;
  const OpIndex wait = graph.add(graph.lane(wide), 1);
  const OpIndex first = graph.add(graph.lane(wide), 2), second = graph.add(graph.lane(wide), 2);
  graph.depend(second, wait);
  for (const OpIndex op : {first, second}) graph.share(op, ssd);
  run_alone(*engine, graph);
  CHECK(graph.end(first) == 3);
  CHECK(graph.end(second) == 4);
}

TEST_CASE("engine: what is on a free resource takes no time and shares nothing, the rest is as it was") {
  // Two users of a capacity for 2 s and one of a resource of its own for 3 s behind the second.
  const auto ends = [](bool free) {
    const auto engine = make_fast_engine();
    const ResourceId freed = engine->add_resource("freed", kUnlimitedSlots);
    const ResourceId kept = engine->add_resource("kept", kUnlimitedSlots);
    const CapacityId ssd = engine->add_capacity("ssd", {});
    if (free) engine->make_free(freed);
    CHECK(engine->is_free(freed) == free);
    CHECK_FALSE(engine->is_free(kept));
    Graph graph;
    const OpIndex first = graph.add(graph.lane(kept), 2), second = graph.add(graph.lane(freed), 2);
    const OpIndex last = graph.add(graph.lane(kept), 3);
    graph.depend(last, second);
    for (const OpIndex op : {first, second}) graph.share(op, ssd);
    run_alone(*engine, graph);
    return std::vector<double>{graph.end(first), graph.end(second), graph.end(last)};
  };
  CHECK(ends(false) == std::vector<double>{4, 4, 7});
  CHECK(ends(true) == std::vector<double>{2, 0, 3});
}

TEST_CASE("engine: the part that no other user stretches comes first") {
  // 1 s of its own, then 2 s shared: the other user is gone after 2 * 1 s, at 1 + 2; of the 2 s, 1 is left
  // then.
  const auto engine = make_fast_engine();
  const ResourceId wide = engine->add_resource("wide", kUnlimitedSlots);
  const CapacityId ssd = engine->add_capacity("ssd", {});
  Graph graph;
  const OpIndex late = graph.add(graph.lane(wide), 3), early = graph.add(graph.lane(wide), 2);
  graph.share(late, ssd, 2);
  graph.share(early, ssd, 2);
  run_alone(*engine, graph);
  CHECK(graph.end(early) == 1 + 2);
  CHECK(graph.end(late) == 3 + 1);
}

TEST_CASE("engine: interference lasts as long as its cause") {
  // The cause is busy until 4. A read of 2 s from 1 on has 1 s by then (3 s at a third of the speed).
  const auto engine = make_fast_engine();
  const ResourceId io = engine->add_resource("io", 1), busy = engine->add_resource("busy", 1);
  const CapacityId ssd = engine->add_capacity("ssd", {});
  engine->add_interference({ssd, busy, 3});
  Graph graph;
  graph.add(graph.lane(busy), 4);
  const OpIndex wait = graph.add(graph.lane(io), 1), read = graph.add(graph.lane(io), 2);
  graph.depend(read, wait);
  graph.share(read, ssd);
  run_alone(*engine, graph);
  CHECK(graph.end(read) == 5);
}

TEST_CASE("engine: the users of one capacity slow those of another while there are any") {
  // Work of 10 s, reads from 2 to 5 and from 4 to 7 in two operations at once, a factor of 2 whether one is
  // under way or both: 2 s by 2, 2.5 s in the next 5, 5.5 s left at 7. Their latencies (1 s) count.
  const auto engine = make_fast_engine();
  const ResourceId wide = engine->add_resource("wide", kUnlimitedSlots);
  const CapacityId cpu = engine->add_capacity("cpu", {}), ssd = engine->add_capacity("ssd", {{1, 1}});
  engine->add_interference({cpu, UsersOf{ssd}, 2});
  Graph graph;
  const Lane lane = graph.lane(wide);
  const OpIndex work = graph.add(lane, 10), other = graph.add(lane, 10);
  graph.share(work, cpu);
  for (const double from : {2, 4}) {
    const OpIndex wait = graph.add(lane, from), read = graph.add(lane, 3);
    graph.depend(read, wait);
    graph.share(read, ssd, 2);
  }
  run_alone(*engine, graph);
  CHECK(graph.end(work) == 7 + 5.5);
  CHECK(graph.end(other) == 10);  // it does not use the CPU
}

TEST_CASE("engine: two capacities may slow each other, each by what runs on the other") {
  // Decompression of 4 s from 0, a read of 3 s from 1. Decompression takes twice as long beside the read,
  // the read three times as long beside decompression, which has 3 s left at 1 and so ends at 7. The read
  // has got 2 of its 3 s by then, and the last one takes as long as alone.
  const auto engine = make_fast_engine();
  const ResourceId io = engine->add_resource("io", 1), thread = engine->add_resource("decompress", 1);
  const CapacityId cpu = engine->add_capacity("cpu", {}), ssd = engine->add_capacity("ssd", {});
  engine->add_interference({ssd, thread, 3});
  engine->add_interference({cpu, UsersOf{ssd}, 2});
  Graph graph;
  const OpIndex work = graph.add(graph.lane(thread), 4);
  const OpIndex wait = graph.add(graph.lane(io), 1), read = graph.add(graph.lane(io), 3);
  graph.depend(read, wait);
  graph.share(work, cpu);
  graph.share(read, ssd);
  run_alone(*engine, graph);
  CHECK(graph.end(work) == 7);
  CHECK(graph.end(read) == 8);
}

TEST_CASE("engine: what takes longer than anything is refused, the longest is not") {
  Graph graph;
  const Lane lane = graph.lane(0);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const double seconds : {1.0001e12, 1e300, kInfinite, std::nan("")})
    CHECK_THROWS_AS(graph.add(lane, seconds), TooLong);
  CHECK(graph.size() == 0);
  const OpIndex longest = graph.add(lane, kLongest);
  CHECK(graph.seconds(longest) == 1e12);
  CHECK_THROWS_AS(graph.add_continuation(longest, 2e12), TooLong);
}

}  // namespace moelab::engine_test
