// The answer of a run where two systems take the same time, but for what sums in another order make of it.
#include "sim/sweep/run_answer.hpp"

#include <catch2/catch.hpp>

#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"

namespace moelab::run_answer_test {
namespace {

/// The result of another system, whose requests end later by this part of the time since they came.
RunResult later_by(RunResult result, const std::string& system, double part) {
  result.system = system;
  for (RequestTimes& request : result.metrics.requests)
    request.end_s += part * (request.end_s - request.arrival_s);
  return result;
}

TEST_CASE("a difference that rounding makes is none, and one that is larger is said") {
  const Scenario s = load_scenario(
      "zipmoe-orin",
      {{"workload.requests", "3"}, {"workload.prompt_tokens", "4"}, {"workload.output_tokens", "4"}},
      {"zipmoe-lru", "zipmoe-fifo"});
  const RunResult first = run_system(s, s.systems[0], scenario_trace(s));
  const std::string& other = s.systems[1].name;
  const RunAnswer alike = run_answer(s, {first, later_by(first, other, 1e-14)}, {});
  CHECK(alike.noise == NoiseVerdict::the_same);
  CHECK(alike.text.find("noise") == std::string::npos);
  CHECK(alike.text.find(", as " + other) != std::string::npos);
  const RunAnswer apart = run_answer(s, {first, later_by(first, other, 0.01)}, {});
  CHECK(apart.noise != NoiseVerdict::the_same);
  CHECK(apart.text.find("That ") != std::string::npos);
}

}  // namespace
}  // namespace moelab::run_answer_test
