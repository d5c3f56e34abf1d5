// The two simulating executors on whole jobs.
#include <catch2/catch.hpp>

#include "sim/results/result_transfer.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/simgrid_module.hpp"
#include "traces/routing_trace.hpp"

namespace moelab::executors_test {
namespace {

/// Every figure of every system is equal to 1e-6.
void check_agreement(const Scenario& scenario) {
  const RoutingTrace trace = scenario_trace(scenario);
  RunOptions with_simgrid;
  with_simgrid.executor = ExecutorKind::simgrid;
  for (const SystemConfig& system : scenario.systems) {
    INFO(system.name);
    const RunResult fast = run_system(scenario, system, trace);
    const RunResult simgrid = unpack_result(engine::run_in_simgrid_child(
        [&] { return pack_result(run_system(scenario, system, trace, with_simgrid)); }));
    CHECK(simgrid.executor == "simgrid");
    CHECK(simgrid.metrics.wall_s == Approx(fast.metrics.wall_s).epsilon(1e-6));
    CHECK(simgrid.metrics.hits == fast.metrics.hits);
    CHECK(simgrid.metrics.bytes == fast.metrics.bytes);
    CHECK(simgrid.operations == fast.operations);
    for (std::size_t i = 0; i < fast.metrics.token_gaps_s.size(); ++i)
      CHECK(simgrid.metrics.token_gaps_s[i] == Approx(fast.metrics.token_gaps_s[i]).epsilon(1e-6));
    for (std::size_t i = 0; i < kCauses; ++i)
      CHECK(simgrid.metrics.stall_s[i] == Approx(fast.metrics.stall_s[i]).epsilon(1e-6).margin(1e-9));
    for (std::size_t i = 0; i < fast.busy.size(); ++i)
      CHECK(simgrid.busy[i].busy_s == Approx(fast.busy[i].busy_s).epsilon(1e-6).margin(1e-9));
  }
}

}  // namespace

TEST_CASE("simgrid: a whole job agrees with fast, reads beside decompression included", "[long]") {
  // With a memory controller that is never the bottleneck.
  check_agreement(
      load_scenario("zipmoe-orin", {{"workload.requests", "1"},
                                    {"workload.prompt_tokens", "8"},
                                    {"workload.output_tokens", "6"},
                                    {"overrides.device.memory.controller.value", "1000000 GB/s"}}));
}

TEST_CASE("simgrid: on a discrete GPU the link, prefetches and the CPU's experts agree with fast", "[long]") {
  check_agreement(load_scenario(
      "smoe-deepseek-3080ti-batch3",
      {{"workload.requests", "3"}, {"workload.prompt_tokens", "8"}, {"workload.output_tokens", "6"}}));
}

}  // namespace moelab::executors_test
