// SimGrid's shares of capacities in chains against progressive filling, and against closed forms.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"

namespace moelab::max_min_test {

using namespace moelab::engine;

namespace {

/// A transfer that starts at 0, all transfers at once.
struct Flow {
  double amount;
  double alone_s;  // how long it takes when alone
  std::size_t capacity;
};
struct Pipe {
  double bandwidth;
  std::size_t beyond;  // number of a pipe before this one; kNone: nothing
};
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

/// Ends under SimGrid, each flow on a slot of its own, `slots` at a time.
std::vector<double> simgrid_ends(const std::vector<Pipe>& pipes, const std::vector<Flow>& flows,
                                 std::uint32_t slots = kUnlimitedSlots) {
  const std::string text = engine::run_in_simgrid_child([&] {
    const std::unique_ptr<Engine> engine = make_simgrid_engine();
    const ResourceId resource = engine->add_resource("transfers", slots);
    std::vector<CapacityId> ids;
    for (const Pipe& pipe : pipes)
      ids.push_back(engine->add_capacity(
          "pipe",
          {.bandwidth = pipe.bandwidth, .beyond = pipe.beyond == kNone ? kNoCapacity : ids[pipe.beyond]}));
    Graph graph;
    for (const Flow& flow : flows)
      graph.share(graph.add(graph.lane(resource), flow.alone_s), ids[flow.capacity], flow.alone_s,
                  flow.amount);
    const auto play = [&]() -> Process {
      engine->submit(graph, kDemand);
      co_await engine->finished(graph);
    };
    Process process = play();
    engine->spawn(process);
    engine->run();
    std::ostringstream out;
    out.precision(17);
    for (OpIndex i = 0; i < flows.size(); ++i) out << graph.end(i) << " ";
    return out.str();
  });
  std::istringstream in(text);
  std::vector<double> ends;
  for (double x; in >> x;) ends.push_back(x);
  return ends;
}

/// Max-min rates by progressive filling: all rates rise together; a flow stops at its own top rate, or when a
/// pipe that it crosses is full.
std::vector<double> fill(const std::vector<Pipe>& pipes, const std::vector<Flow>& flows,
                         const std::vector<bool>& active) {
  const auto crosses = [&](std::size_t flow, std::size_t pipe) {
    for (std::size_t p = flows[flow].capacity; p != kNone; p = pipes[p].beyond)
      if (p == pipe) return true;
    return false;
  };
  std::vector<double> rate(flows.size(), 0);
  std::vector<bool> rises = active;
  while (std::count(rises.begin(), rises.end(), true) > 0) {
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (rises[f]) step = std::min(step, flows[f].amount / flows[f].alone_s - rate[f]);
    std::vector<double> room(pipes.size());
    for (std::size_t p = 0; p < pipes.size(); ++p) {
      double used = 0, rising = 0;
      for (std::size_t f = 0; f < flows.size(); ++f)
        if (crosses(f, p)) {
          used += rate[f];
          rising += rises[f] ? 1 : 0;
        }
      room[p] = rising > 0 ? (pipes[p].bandwidth - used) / rising : std::numeric_limits<double>::infinity();
      step = std::min(step, room[p]);
    }
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!rises[f]) continue;
      rate[f] += step;
      const double top = flows[f].amount / flows[f].alone_s;
      bool full = rate[f] >= top * (1 - 1e-12);
      for (std::size_t p = 0; p < pipes.size(); ++p) full |= crosses(f, p) && room[p] <= step * (1 + 1e-12);
      if (full) rises[f] = false;
    }
  }
  return rate;
}

std::vector<double> reference_ends(const std::vector<Pipe>& pipes, const std::vector<Flow>& flows) {
  std::vector<double> left, ends(flows.size(), 0);
  for (const Flow& flow : flows) left.push_back(flow.amount);
  std::vector<bool> active(flows.size(), true);
  for (double now = 0; std::count(active.begin(), active.end(), true) > 0;) {
    const std::vector<double> rate = fill(pipes, flows, active);
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (active[f]) step = std::min(step, left[f] / rate[f]);
    now += step;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (!active[f]) continue;
      left[f] -= rate[f] * step;
      if (left[f] > 1e-9 * flows[f].amount) continue;
      active[f] = false;
      ends[f] = now;
    }
  }
  return ends;
}

}  // namespace

TEST_CASE("max-min: chains of capacities share as progressive filling says") {
  constexpr int kCases = moelab::test::random_runs(1000, 50);
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int i = 0; i < kCases; ++i) {
    std::vector<Pipe> pipes;
    for (std::size_t p = 1 + random() % 4; p > 0; --p)
      pipes.push_back(
          {1e9 * (1 + 20 * uniform()), pipes.empty() || random() % 4 == 0 ? kNone : random() % pipes.size()});
    std::vector<Flow> flows;
    for (std::size_t f = 1 + random() % 8; f > 0; --f) {
      const std::size_t capacity = random() % pipes.size();
      // Alone no faster than all that it crosses lets it.
      double top = 1e9 * (0.2 + 10 * uniform());
      for (std::size_t p = capacity; p != kNone; p = pipes[p].beyond) top = std::min(top, pipes[p].bandwidth);
      const double amount = 1e6 * (1 + 100 * uniform());
      flows.push_back({amount, amount / top, capacity});
    }
    const std::vector<double> ends = simgrid_ends(pipes, flows), expected = reference_ends(pipes, flows);
    CAPTURE(i);
    REQUIRE(ends.size() == flows.size());
    for (std::size_t f = 0; f < flows.size(); ++f)
      REQUIRE(std::abs(ends[f] - expected[f]) < 1e-6 * expected[f] + 2e-9);
  }
}

TEST_CASE("max-min: n executions on m cores") {
  // Work of 1 s each, at most one core each: min(1, m/n) of a core.
  for (const auto& [n, m] : {std::pair(6, 4), std::pair(4, 4), std::pair(3, 4), std::pair(9, 2)})
    for (const double end : simgrid_ends({{static_cast<double>(m), kNone}},
                                         std::vector<Flow>(static_cast<std::size_t>(n), {1, 1, 0})))
      CHECK(end == Approx(std::max(1.0, static_cast<double>(n) / m)).epsilon(1e-9));
}

TEST_CASE("max-min: a queue depth admits so many at a time") {
  // Reads of 1 GB at 1 GB/s each through 2 GB/s, two at a time, first come first served.
  const std::vector<double> ends = simgrid_ends({{2e9, kNone}}, std::vector<Flow>(5, {1e9, 1, 0}), 2);
  const std::vector<double> expected = {1, 1, 2, 2, 3};
  for (std::size_t i = 0; i < 5; ++i) CHECK(ends[i] == Approx(expected[i]).epsilon(1e-9));
}

TEST_CASE("max-min: two transfers over PCIe") {
  // 10 and 30 GB over 25 GB/s: halves until the short one ends at 0.8; the other has 20 GB left: 0.8 + 0.8.
  const std::vector<double> ends = simgrid_ends({{25e9, kNone}}, {{10e9, 0.4, 0}, {30e9, 1.2, 0}});
  CHECK(ends[0] == Approx(0.8).epsilon(1e-9));
  CHECK(ends[1] == Approx(1.6).epsilon(1e-9));
}

TEST_CASE("max-min: memory shared by the SSD and decompression") {
  // A read of 3.5 GB/s and L threads that move t GB/s each through a memory of C GB/s: the read gets what
  // they leave, or an equal share, if that is more: min(3.5, max(C / (L + 1), C - L t)). With 6 threads
  // of 1.7 GB/s and 13.44 GB/s that is 3.24: 7.4 % lost. With the 204.8 GB/s of a data sheet nothing is.
  const auto read_seconds = [](double memory, std::size_t threads) {
    std::vector<Flow> flows(threads, {1.7e9 * 100, 100, 0});  // busy all the time
    flows.push_back({3.5e9, 1, 1});
    return simgrid_ends({{memory * 1e9, kNone}, {3.5e9, 0}}, flows).back();
  };
  for (const double memory : {5.0, 13.44, 15.0, 204.8})
    for (const std::size_t threads : {1, 6, 12}) {
      const double n = static_cast<double>(threads);
      const double rate = std::min(3.5, std::max(memory / (n + 1), memory - n * 1.7));
      CHECK(read_seconds(memory, threads) == Approx(3.5 / rate).epsilon(1e-6));
    }
}

}  // namespace moelab::max_min_test
