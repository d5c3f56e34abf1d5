// The section `workload` of a scenario: what is read of lengths, classes, users and what is left out, and
// what is wrong with it.
#include <catch2/catch.hpp>
#include <cmath>

#include "models/input_error.hpp"
#include "sim/load/service_level.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::workload_file_test {

using namespace moelab::test;
using Catch::Contains;

namespace {

const std::string kClasses = R"([
    {name: chat, share: 0.75, prompt_tokens: {distribution: lognormal, median: 4, sigma: 1, most: 9}, output_tokens: [2, 5]},
    {name: code, share: 0.25, lengths_of: lengths.csv}])";

/// The small scenario, whose requests have these lengths.
struct WorkloadFiles : Files {
  explicit WorkloadFiles(const std::string& workload) {
    write("lengths.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,2\n5,7,4\n");
    change("scenario.yaml", "  prompt_tokens: 3\n  output_tokens: 5\n", workload + "\n");
  }
};

std::string problem_of(const std::string& workload) {
  return all_of(WorkloadFiles("  " + workload).problems());
}

}  // namespace

TEST_CASE("workload: lengths, classes, users and what is left out are read") {
  const WorkloadFiles files("  classes: " + kClasses +
                            "\n  closed_loop: {users: 3, think_time: 20 ms, distribution: exponential}"
                            "\n  warm_up: 1\n  cool_down: 2");
  const Scenario s = files.load();
  const WorkloadConfig& w = s.workload;
  REQUIRE(w.mix.size() == 2);
  CHECK(has_classes(w));
  CHECK(w.mix[0].name == "chat");
  CHECK(w.mix[0].share == 0.75);
  CHECK(w.mix[0].prompt.kind == TokenLaw::Kind::lognormal);
  CHECK(w.mix[0].prompt.median == 4);
  CHECK(w.mix[0].prompt.least == 1);
  CHECK(w.mix[0].prompt.most == 9);
  CHECK(w.mix[0].output.least == 2);
  CHECK(w.mix[0].output.most == 5);
  CHECK(w.mix[1].lengths == std::vector<RequestRecord>{{0, 3, 2}, {5, 7, 4}});
  CHECK(w.closed_loop->users == 3);
  CHECK(w.closed_loop->think_s == Approx(0.02));
  CHECK(w.closed_loop->exponential);
  CHECK(w.left_out.warm_up->requests == 1);
  CHECK(w.left_out.cool_down->requests == 2);
  CHECK(files.load({{"workload.warm_up", "90 s"}}).workload.left_out.warm_up->seconds == 90);
  // A result holds the scenario whole, with paths that last.
  const Scenario again = scenario_of_document("again", s.document);
  CHECK(again.workload.mix[1].lengths == w.mix[1].lengths);
  CHECK(scenario_inputs(s) == std::vector<std::string>{files.path("lengths.csv")});
}

TEST_CASE("workload: a lognormal law's mean is its median times exp(sigma^2 / 2)") {
  const WorkloadFiles files(
      "  prompt_tokens: {distribution: lognormal, mean: 800, sigma: 0.5}\n"
      "  output_tokens: {distribution: uniform, least: 2, most: 8}");
  const WorkloadConfig w = files.load().workload;
  CHECK(w.mix.front().prompt.median * std::exp(0.125) == Approx(800));
  CHECK(w.mix.front().output.most == 8);
  CHECK_FALSE(has_classes(w));
}

TEST_CASE("workload: static batches in turn run requests of drawn lengths, by class") {
  const WorkloadFiles files("  classes: " + kClasses);
  const Scenario s = files.load({{"workload.requests", "12"}});
  const RoutingTrace trace = scenario_trace(s);
  const std::vector<ServedRequest> asked = served_requests(s, trace);
  for (const SystemConfig& system : s.systems) {
    const RunResult r = run_system(s, system, trace);
    CHECK(r.classes == std::vector<std::string>{"chat", "code"});
    REQUIRE(r.metrics.requests.size() == 12);
    CHECK(r.metrics.gap_classes.size() == r.metrics.token_gaps_s.size());
    for (const RequestTimes& q : r.metrics.requests) {
      CHECK(q.prompt_tokens == asked[q.number].prompt_tokens);
      CHECK(q.output_tokens == asked[q.number].output_tokens);
      CHECK(q.of_class == asked[q.number].of_class);
    }
  }
}

TEST_CASE("workload: what is wrong with it is said with file and line") {
  const std::string out = "output_tokens: 2", sigma = "sigma: 1}\n  " + out;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"prompt_tokens: [4]\n  " + out, "'prompt_tokens' has 1 values"},
      {"prompt_tokens: [9, 4]\n  " + out, "the least number of tokens, 9, is above the most, 4"},
      {"prompt_tokens: [0, 4]\n  " + out, "'0' for prompt_tokens"},
      {"prompt_tokens: {distribution: lognorml, median: 4, " + sigma, "(did you mean 'lognormal'?)"},
      {"prompt_tokens: {distribution: lognormal, median: 4, mean: 5, " + sigma, "say the same"},
      {"prompt_tokens: {distribution: lognormal, " + sigma, "missing key 'median'"},
      {"prompt_tokens: {distribution: lognormal, median: 4, most: 2, least: 3, " + sigma,
       "is above the most"},
      {"prompt_tokens: {distribution: lognormal, median: 4, sigma: -1}\n  " + out, "'-1' for"},
      {"prompt_tokens: {distribution: uniform, least: 4, most: 5, " + sigma, "unknown key 'sigma'"},
      {"lengths_of: lengths.csv\n  " + out, "both lengths of a request are drawn together"},
      {"lengths_of: none.csv", "none.csv"},
      {"classes: " + kClasses + "\n  " + out, "is each class's to say"},
      {"classes: []", "no class is listed"},
      {"classes: [{name: a, share: 0.7, " + out + ", prompt_tokens: 1}]", "add up to 0.7 (0.7); expected 1"},
      {"classes: [{name: a, share: 0.7, " + out + ", prompt_tokens: 1}, {name: a, share: 0.3, " + out +
           ", prompt_tokens: 1}]",
       "class 'a' is listed twice"},
      {"classes: [{name: a b, share: 1, " + out + ", prompt_tokens: 1}]", "expected one word"},
      {"classes: [{name: a, share: 1.5, " + out + ", prompt_tokens: 1}]", "'1.5' for"},
      {"classes: [{name: a, shares: 1, " + out + ", prompt_tokens: 1}]", "did you mean 'share'?"},
      {"classes: {name: a}", "classes"},
      {"prompt_tokens: 3\n  " + out + "\n  closed_loop: {users: 2}\n  arrivals_per_s: 3",
       "is there beside 'closed_loop'"},
      {"prompt_tokens: 3\n  " + out + "\n  closed_loop: {user: 2}", "did you mean 'users'?"},
      {"prompt_tokens: 3\n  " + out + "\n  closed_loop: {users: 2, think_time: 3}", "'3' for"},
      {"prompt_tokens: 3\n  " + out + "\n  arrivals_per_s: {from: 2}", "missing key 'to'"},
      {"prompt_tokens: 3\n  " + out + "\n  arrivals_per_s: {from: 0, to: 1}", "'0' for"},
      {"prompt_tokens: 3\n  " + out + "\n  warm_up: soon",
       "'warm_up' is 'soon'; expected a time such as 60 s"},
      {"prompt_tokens: 3\n  " + out + "\n  warm_up: -1 s", "expected a time such as 60 s"},
      {"prompt_tokens: 3\n  " + out + "\n  warm_up: 3\n  cool_down: 1", "4 of 4 requests are left out"},
      {"prompt_tokens: 3\n  " + out + "\n  cool_down: 1 s\n  closed_loop: {users: 1}",
       "expected a number of requests"},
      {"request_log: lengths.csv\n  classes: " + kClasses, "'classes' is the request log's to say"},
  };
  for (const auto& [workload, expected] : cases) {
    INFO(workload);
    const std::string found = problem_of(workload);
    CHECK_THAT(found, Contains(expected));
    CHECK_THAT(found, Contains("scenario.yaml:") || Contains("none.csv"));
  }
}

TEST_CASE("service level: of a class of requests") {
  const ServiceLevel level =
      parse_service_level("--slo", "chat ttft p95 < 1 s, ttft p95 < 9 s", {"chat", "code"});
  REQUIRE(level.clauses.size() == 2);
  CHECK(level.clauses[0].of_class == std::uint16_t{0});
  CHECK(to_string(level.clauses[0]) == "chat ttft p95 < 1 s");
  CHECK_FALSE(level.clauses[1].of_class.has_value());
  RequestTimes q{.arrival_s = 0, .started_s = 0, .first_token_s = 2, .end_s = 3};
  q.of_class = 1;
  CHECK(meets(q, level));
  q.of_class = 0;
  CHECK_FALSE(meets(q, level));
  q.first_token_s = 0.5;
  CHECK(meets(q, level));
  CHECK_THROWS_WITH(parse_service_level("--slo", "chatt ttft p95 < 1 s", {"chat"}),
                    Contains("no latency or class 'chatt' (did you mean 'chat'?)"));
  CHECK_THROWS_WITH(parse_service_level("--slo", "ttft p95 < 1 s", {"ttft"}),
                    Contains("another name for it"));
  CHECK_THROWS_WITH(parse_service_level("--slo", "chat p95 < 1 s", {"chat"}), Contains("no latency"));
}

}  // namespace moelab::workload_file_test
