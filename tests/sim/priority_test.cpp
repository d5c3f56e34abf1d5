// Priorities, from a workload's classes or a log's column to who is served first.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "models/input_error.hpp"
#include "sim/results/request_latencies.hpp"
#include "sim/run.hpp"
#include "sim/scenario.hpp"
#include "sim/scenario_trace.hpp"
#include "sim/serving/served_request.hpp"
#include "tests/scratch_folder.hpp"
#include "traces/requests.hpp"

namespace moelab::priority_test {

using Catch::Matchers::Contains;

namespace {

/// One request at a time, all there from the start.
const std::string kClasses =
    "{batch: 1, requests: 30, classes: [{name: urgent, share: 0.3, priority: -5, prompt_tokens: 20, "
    "output_tokens: 3}, {name: usual, share: 0.4, prompt_tokens: 30, output_tokens: 4}, {name: later, share: "
    "0.3, priority: 7, prompt_tokens: 10, output_tokens: 2}]}";

Scenario scenario_of(const std::string& workload, const std::string& policy) {
  return load_scenario("chat-and-code", {{"workload", workload}, {"overrides.system.batching", policy}});
}
RunResult run(const Scenario& s) {
  return run_system(s, s.systems.front(), scenario_trace(s));
}
bool says_ignored(const RunResult& r) {
  return std::ranges::any_of(r.warnings, [](const std::string& warning) {
    return warning.find("does not go by the requests' priorities") != std::string::npos;
  });
}

/// Numbers of requests by when they were begun.
std::vector<std::uint32_t> order_of(const RunResult& r) {
  std::vector<std::pair<double, std::uint32_t>> begun;
  for (const RequestTimes& q : r.metrics.requests) begun.emplace_back(q.started_s, q.number);
  std::ranges::sort(begun);
  std::vector<std::uint32_t> order;
  for (const auto& [at, number] : begun) order.push_back(number);
  return order;
}
std::vector<std::uint32_t> by_priority(const std::vector<std::int32_t>& priorities) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < priorities.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return priorities[i]; });
  return order;
}

std::string problem_with(const std::string& workload) {
  try {
    scenario_of(workload, "{policy: vllm-v1}");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("priorities of classes: the lowest is served first where the policy goes by them") {
  const Scenario s = scenario_of(kClasses, "{policy: vllm-v1, scheduling: 1}");
  std::vector<std::int32_t> priorities;
  for (const ServedRequest& request : served_requests(s, scenario_trace(s)))
    priorities.push_back(request.priority);
  const std::vector<std::uint16_t> classes = request_classes(s);
  for (std::size_t i = 0; i < priorities.size(); ++i)
    CHECK(priorities[i] == std::vector<std::int32_t>{-5, 0, 7}.at(classes[i]));
  for (const std::int32_t priority : {-5, 0, 7}) CHECK(std::ranges::count(priorities, priority) > 2);
  const RunResult first = run(s), fcfs = run(scenario_of(kClasses, "{policy: vllm-v1}"));
  CHECK(order_of(first) == by_priority(priorities));
  CHECK(order_of(fcfs) == by_priority(std::vector<std::int32_t>(priorities.size(), 0)));
  CHECK(!says_ignored(first));
}

TEST_CASE("priorities are said to be ignored by policies that do not go by them") {
  CHECK(says_ignored(run(scenario_of(kClasses, "{policy: vllm-v1}"))));
  CHECK(says_ignored(run(scenario_of(kClasses, "{policy: continuous}"))));
  CHECK(says_ignored(run(scenario_of(kClasses, "{policy: sglang}"))));
  const std::string alike =
      "{batch: 1, requests: 2, classes: [{name: a, share: 1, priority: 3, prompt_tokens: 9, output_tokens: "
      "2}]}";
  CHECK(!says_ignored(run(scenario_of(alike, "{policy: vllm-v1}"))));
}

TEST_CASE("on a cluster priorities of a server's log are said to be ignored likewise") {
  const test::ScratchFolder scratch;
  const auto run_of = [&](const std::vector<std::int32_t>& priorities, const std::string& batching) {
    std::vector<RequestRecord> log;
    for (const std::int32_t priority : priorities)
      log.push_back({.arrival_s = 0, .prompt_tokens = 9, .output_tokens = 2, .priority = priority});
    const std::string path = (scratch / "log.csv").string();
    write_request_log(log, path);
    std::vector<std::pair<std::string, std::string>> settings = {
        {"workload.servers", "[{tasks: {arithmetic: 1}, request_log: " + path + "}]"}};
    if (!batching.empty()) settings.emplace_back("overrides.system.batching", batching);
    return run(load_scenario("prism-offload", settings, {"prism-offload"}));
  };
  CHECK(says_ignored(run_of({0, 2, 0}, "")));
  CHECK(says_ignored(run_of({0, 2, 0}, "{policy: vllm-v1}")));
  CHECK(!says_ignored(run_of({0, 2, 0}, "{policy: vllm-v1, scheduling: 1}")));
  CHECK(!says_ignored(run_of({2, 2, 2}, "")));
}

TEST_CASE("priorities of a log are its last column") {
  const test::ScratchFolder scratch;
  const std::string path = (scratch / "log.csv").string();
  const std::vector<std::int32_t> priorities{2, 0, -1, 2, 0};
  std::vector<RequestRecord> log;
  for (const std::int32_t priority : priorities) {
    log.push_back({.arrival_s = 0, .prompt_tokens = 20, .output_tokens = 2});
    log.back().priority = priority;
  }
  for (const bool shares : {false, true}) {
    if (shares) log[1].shared_tokens = 16;
    write_request_log(log, path);
    CHECK(read_request_log(path) == log);
    const RunResult r = run(scenario_of("{batch: 1, request_log: " + path + "}",
                                        "{policy: vllm-v1, scheduling: 1, prefix_cache: 0}"));
    CHECK(order_of(r) == by_priority(priorities));
  }
}

TEST_CASE("priorities that are none are refused where they stand") {
  const auto one = [](const std::string& priority) {
    return problem_with("{batch: 1, requests: 2, classes: [{name: a, share: 1, priority: " + priority +
                        ", prompt_tokens: 9, output_tokens: 2}]}");
  };
  CHECK(one("-3").empty());
  CHECK_THAT(one("1.5"), Contains("priority"));
  CHECK_THAT(one("high"), Contains("priority"));
  CHECK_THAT(one("1000001"), Contains("1000000"));
  const test::ScratchFolder scratch;
  const std::string path = (scratch / "log.csv").string();
  for (const char* const priority : {"1.5", "x", "1e9", ""}) {
    std::ofstream(path) << "arrival_s,prompt_tokens,output_tokens,priority\n0,5,2,1\n1,5,2," << priority
                        << "\n";
    CHECK_THROWS_WITH(read_request_log(path), Contains(":3:"));
  }
}

}  // namespace moelab::priority_test
