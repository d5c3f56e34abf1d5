// The serving loop allocates nothing once it runs: every allocation of this program is counted.
#include <catch2/catch.hpp>

#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/graph_observer.hpp"
#include "tests/counted_allocations.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::allocation_test {
namespace {

/// Sees every graph, so that all of them run, and keeps nothing.
class Watcher final : public GraphObserver {
 public:
  void finished(const LabelledGraph&, std::uint64_t, std::int32_t) override { ++graphs; }
  std::uint64_t graphs = 0;
};

struct Counted {
  std::uint64_t allocations = 0;
  std::uint64_t graphs = 0;
};

constexpr std::uint64_t kWarm = 200;   // tokens after which the buffers have grown
constexpr std::uint64_t kPasses = 40;  // of 26 sparse layers: more than 1,000 layer steps
static_assert(26 * kPasses >= 1000);

/// Allocations of those passes, of one token each.
Counted count(const Scenario& scenario, const SystemConfig& system, const RoutingTrace& trace, bool watched) {
  Watcher watcher;
  Counted before, after;
  RunOptions options;
  if (watched) options.observer = [&](const SystemConfig&) { return &watcher; };
  options.progress = [&](const SystemConfig&, std::uint64_t tokens, std::uint64_t) {
    if (tokens == kWarm) before = {allocations.load(), watcher.graphs};
    if (tokens == kWarm + kPasses) after = {allocations.load(), watcher.graphs};
  };
  run_system(scenario, system, trace, options);
  REQUIRE((before.allocations > 0) == kCounts);
  REQUIRE(after.allocations >= before.allocations);
  return {after.allocations - before.allocations, after.graphs - before.graphs};
}

}  // namespace

TEST_CASE("allocations: the counter counts") {
  if (!kCounts) {
    WARN("skipped: sanitizers have an allocator of their own");
    return;
  }
  const std::uint64_t before = allocations.load();
  std::vector<int> values(1000);
  values[999] = 1;
  CHECK(values[999] + static_cast<int>(allocations.load() - before) == 2);
}

TEST_CASE("allocations: a thousand layer steps make none, whether layers run or have been seen before") {
  if (!kCounts) {
    WARN("skipped: sanitizers have an allocator of their own");
    return;
  }
  const Scenario scenario =
      load_scenario("zipmoe-orin", {{"workload.requests", "1"}, {"workload.output_tokens", "256"}});
  const RoutingTrace trace = scenario_trace(scenario);
  for (const SystemConfig& system : scenario.systems) {
    CAPTURE(system.name);
    CHECK(count(scenario, system, trace, false).allocations == 0);
    const Counted watched = count(scenario, system, trace, true);
    CHECK(watched.allocations == 0);
    CHECK(watched.graphs >= 1000);
  }
}

}  // namespace moelab::allocation_test
