// The main job: DeepSeek-V2-Lite on a Jetson AGX Orin with 20 GB, requests of 128 + 128 tokens, from a loaded
// scenario to results (planning included, the trace generated beforehand). See README.md.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <ctime>
#include <numeric>
#include <string>

#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "traces/law/law_generator.hpp"

namespace moelab {
namespace {

double peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// `page_cache`: memory outside the budget caches the file, as in the scenario.
void main_job(benchmark::State& state, const std::string& system, bool page_cache,
              const std::string& budget) {
  const Scenario scenario =
      load_scenario("zipmoe-orin", {{"systems", "[" + system + "]"},
                                    {"budget", budget},
                                    {"workload.requests", std::to_string(state.range(0))},
                                    {"workload.output_tokens", std::to_string(state.range(1))},
                                    {"overrides.system.page_cache", page_cache ? "true" : "false"}});
  const RoutingTrace trace = scenario_trace(scenario);
  check_scenario(scenario, trace);
  double tokens = 0, operations = 0, simulated_s = 0, hit_rate = 0;
  for (auto _ : state) {
    const RunResult result = run_system(scenario, scenario.systems.front(), trace);
    const auto expected = scenario.workload.requests * scenario.workload.output_tokens;
    if (result.metrics.tokens != expected) return state.SkipWithError("not every token was generated");
    tokens += static_cast<double>(result.metrics.tokens);
    operations += static_cast<double>(result.operations);
    simulated_s += result.metrics.wall_s;
    const auto& found = result.metrics.decode_hits;
    hit_rate = 1 - static_cast<double>(found[index(State::M)]) /
                       static_cast<double>(std::accumulate(found.begin(), found.end(), std::uint64_t{0}));
  }
  using benchmark::Counter;
  state.counters["tokens/s"] = Counter(tokens, Counter::kIsRate);
  state.counters["operations/s"] = Counter(operations, Counter::kIsRate);
  state.counters["simulated_s/s"] = Counter(simulated_s, Counter::kIsRate);
  state.counters["hit_rate"] = hit_rate;
  state.counters["peak_resident"] = Counter(peak_resident_bytes(), Counter::kDefaults, Counter::kIs1024);
}

// Requests and generated tokens a request: a few; so many that starting is a small part (planning, layers
// that are new); and longer answers, of which the prompt's pass is a small part.
void small_large_and_long(benchmark::internal::Benchmark* b) {
  b->Args({4, 128})->Args({400, 128})->Args({50, 1024})->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(main_job, all_miss, "zipmoe-nocache", false, "20 GB")->Apply(small_large_and_long);
BENCHMARK_CAPTURE(main_job, all_miss_page_cache, "zipmoe-nocache", true, "20 GB")
    ->Apply(small_large_and_long);
BENCHMARK_CAPTURE(main_job, hits_70_percent, "zipmoe-lru", true, "10.4 GB")->Apply(small_large_and_long);
BENCHMARK_CAPTURE(main_job, zipmoe, "zipmoe", true, "20 GB")->Apply(small_large_and_long);

/// Drawing what the main job runs, prompts' rows included, from a law with gates on one thread: CPU time
/// beside that of the run, in turns.
void draw_for_main_job(benchmark::State& state, const std::string& system) {
  const Scenario scenario =
      load_scenario("zipmoe-orin", {{"systems", "[" + system + "]"},
                                    {"workload.requests", std::to_string(state.range(0))},
                                    {"workload.output_tokens", std::to_string(state.range(1))}});
  const RoutingTrace trace = scenario_trace(scenario);
  check_scenario(scenario, trace);
  LawGenerator generator(law_for_model(load_routing_law("debian-moe-8x32"), scenario.model), scenario.seed);
  double drawing = 0, running = 0, rows = 0;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    std::uint64_t sum = 0;
    for (std::size_t r = 0; r < trace.requests().size(); ++r) {
      generator.begin_request(r, generator.domain_of(r));
      for (std::uint64_t t = trace.requests()[r].begin; t < trace.requests()[r].end; ++t)
        sum += generator.next(trace.phase_of(t)).ids[0];
    }
    benchmark::DoNotOptimize(sum);
    const std::clock_t drawn = std::clock();
    const RunResult result = run_system(scenario, scenario.systems.front(), trace);
    if (result.metrics.tokens != std::uint64_t{scenario.workload.requests} * scenario.workload.output_tokens)
      return state.SkipWithError("not every token was generated");
    drawing += static_cast<double>(drawn - begin) / CLOCKS_PER_SEC;
    running += static_cast<double>(std::clock() - drawn) / CLOCKS_PER_SEC;
    rows += static_cast<double>(trace.tokens());
  }
  state.counters["of_main_job"] = drawing / running;
  state.counters["s_per_million"] = 1e6 * drawing / rows;
}
BENCHMARK_CAPTURE(draw_for_main_job, zipmoe, "zipmoe")
    ->Args({400, 128})
    ->Args({50, 1024})
    ->Unit(benchmark::kMillisecond);

/// CPU seconds in which the experts of `rows` rows are read and counted by a bare loop, all layers: what a
/// run that goes by what is routed cannot do without.
double reading_seconds(const RoutingTrace& trace, std::uint64_t rows) {
  const std::clock_t begin = std::clock();
  std::uint64_t sum = 0;
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
      for (const std::uint16_t expert : trace.experts_of(row % trace.tokens(), layer)) sum += expert;
  benchmark::DoNotOptimize(sum);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Qwen3-Next on four L40, 256 requests that decode 3,968 tokens each: 48 layers of 512 experts.
void paged_serving(benchmark::State& state, const std::string& system) {
  const Scenario scenario = load_scenario("fluxmoe-qwen3-next", {{"systems", "[" + system + "]"}});
  const RoutingTrace trace = scenario_trace(scenario);
  check_scenario(scenario, trace);
  double steps = 0, rows = 0, seconds = 0, reading = 0;
  for (auto _ : state) {
    const std::clock_t begin = std::clock();
    const RunResult result = run_system(scenario, scenario.systems.front(), trace);
    seconds += static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const auto expected = std::uint64_t{scenario.workload.requests} * scenario.workload.output_tokens;
    if (result.metrics.tokens != expected) return state.SkipWithError("not every token was generated");
    steps += static_cast<double>(result.metrics.serving.steps);
    rows += static_cast<double>(result.metrics.serving.rows);
    state.PauseTiming();
    reading += reading_seconds(trace, result.metrics.serving.rows);
    state.ResumeTiming();
  }
  state.counters["us_a_step"] = 1e6 * seconds / steps;
  state.counters["rows/s"] = rows / seconds;
  state.counters["of_reading"] = seconds / reading;
  state.counters["peak_resident"] =
      benchmark::Counter(peak_resident_bytes(), benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
}
BENCHMARK_CAPTURE(paged_serving, vllm, "vllm")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(paged_serving, fluxmoe, "fluxmoe-alpha1")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moelab
