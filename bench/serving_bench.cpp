// The main job: DeepSeek-V2-Lite on a Jetson AGX Orin with 20 GB, requests of 128 + 128 tokens, from a loaded
// scenario to results (planning included, the trace generated beforehand). See README.md.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <string>

#include "sim/run.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

double peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// `page_cache`: memory outside the budget caches the file, as in the scenario.
void main_job(benchmark::State& state, const std::string& system, bool page_cache) {
  const Scenario scenario =
      load_scenario("zipmoe-orin", {{"systems", "[" + system + "]"},
                                    {"workload.requests", std::to_string(state.range(0))},
                                    {"overrides.system.page_cache", page_cache ? "true" : "false"}});
  const RoutingTrace trace = scenario_trace(scenario);
  check_scenario(scenario, trace);
  double tokens = 0, operations = 0, simulated_s = 0;
  for (auto _ : state) {
    const RunResult result = run_system(scenario, scenario.systems.front(), trace);
    const auto expected = scenario.workload.requests * scenario.workload.output_tokens;
    if (result.metrics.tokens != expected) return state.SkipWithError("not every token was generated");
    tokens += static_cast<double>(result.metrics.tokens);
    operations += static_cast<double>(result.operations);
    simulated_s += result.metrics.wall_s;
  }
  using benchmark::Counter;
  state.counters["tokens/s"] = Counter(tokens, Counter::kIsRate);
  state.counters["operations/s"] = Counter(operations, Counter::kIsRate);
  state.counters["simulated_s/s"] = Counter(simulated_s, Counter::kIsRate);
  state.counters["peak_resident"] = Counter(peak_resident_bytes(), Counter::kDefaults, Counter::kIs1024);
}

// The scenario's 4 requests, and 40, of which planning is a small part.
BENCHMARK_CAPTURE(main_job, all_miss, "zipmoe-nocache", false)
    ->Arg(4)
    ->Arg(40)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(main_job, all_miss_page_cache, "zipmoe-nocache", true)
    ->Arg(4)
    ->Arg(40)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(main_job, zipmoe, "zipmoe", true)->Arg(4)->Arg(40)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moelab
