// What requests met: percentiles computed by naive code from the per-request file against those of the run's
// JSON, over random scenarios.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/sim/paged_cases.hpp"
#include "traces/import/request_import.hpp"

namespace moelab::request_latencies_test {

using namespace moelab::test;
using nlohmann::json;

namespace {

std::vector<json> lines_of(const std::string& jsonl) {
  std::vector<json> lines;
  std::istringstream text(jsonl);
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

/// The rule: of n values in order, the one at place q (n - 1), counted from 0; between two places, as far
/// between their values.
double naive_percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double place = q * (static_cast<double>(values.size()) - 1);
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    if (place >= static_cast<double>(i) && place < static_cast<double>(i + 1))
      return values[i] * (static_cast<double>(i + 1) - place) +
             values[i + 1] * (place - static_cast<double>(i));
  return values.back();
}

void check_value(const json& found, const std::vector<double>& values, double expected) {
  if (values.empty())
    CHECK(found.is_null());
  else
    CHECK(found.get<double>() == Approx(expected).epsilon(1e-9).margin(1e-15));
}

const std::map<std::string, double> kPercentiles = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};

void check_summary(const json& found, const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  check_value(found["mean"], values, sum / static_cast<double>(values.size()));
  for (const auto& [name, q] : kPercentiles)
    check_value(found[name], values, values.empty() ? 0 : naive_percentile(values, q));
}

/// The same of a latency whose mean is called by its name alone.
void check_flat(const json& metrics, const std::string& name, const std::vector<double>& values) {
  json found = {{"mean", metrics[name + "_s"]}};
  for (const auto& [percentile, q] : kPercentiles)
    found[percentile] = metrics[name + "_" + percentile + "_s"];
  check_summary(found, values);
}

struct FromFile {
  std::vector<double> ttft, tpot, whole, normalised, queueing;
  double input = 0, gaps_s = 0, longest_gap_s = 0;
  std::size_t gaps = 0, preempted = 0;
};

FromFile read_back(const std::vector<json>& lines) {
  FromFile f;
  for (const json& q : lines) {
    const double arrival = q["arrival_s"], first = q["first_token_s"], end = q["end_s"];
    const std::size_t tokens = q["output_tokens"];
    f.ttft.push_back(first - arrival);
    f.whole.push_back(end - arrival);
    f.normalised.push_back((end - arrival) / static_cast<double>(tokens));
    f.queueing.push_back(q["started_s"].get<double>() - arrival);
    f.input += q["prompt_tokens"].get<double>();
    f.preempted += q["preempted"].get<std::size_t>();
    CHECK(q["longest_gap_s"].is_null() == (tokens == 1));
    if (tokens == 1) continue;
    f.tpot.push_back((end - first) / static_cast<double>(tokens - 1));
    f.gaps_s += end - first;
    f.gaps += tokens - 1;
    f.longest_gap_s = std::max(f.longest_gap_s, q["longest_gap_s"].get<double>());
    CHECK(q["longest_gap_s"].get<double>() >= f.tpot.back() * (1 - 1e-9));
  }
  return f;
}

/// How many requests it had, and how often any was preempted.
std::pair<std::size_t, std::size_t> check_run(const RunResult& r) {
  const std::vector<json> lines = lines_of(requests_text("a.jsonl", {r}));
  const FromFile f = read_back(lines);
  const json j = json::parse(results_json({r}));
  const json& m = j["metrics"];
  CHECK(j["result_format"] == 2);
  CHECK(lines.size() == m["requests"].get<std::size_t>());
  check_flat(m, "ttft", f.ttft);
  check_flat(m, "end_to_end", f.whole);
  check_summary(m["tpot_s"], f.tpot);
  check_summary(m["normalised_latency_s"], f.normalised);
  check_summary(m["queueing_s"], f.queueing);
  check_summary(m["itl_s"], r.metrics.token_gaps_s);
  CHECK(f.gaps == r.metrics.token_gaps_s.size());
  if (f.gaps > 0) {
    CHECK(m["itl_s"]["mean"].get<double>() == Approx(f.gaps_s / static_cast<double>(f.gaps)).epsilon(1e-9));
    CHECK(f.longest_gap_s == *std::ranges::max_element(r.metrics.token_gaps_s));
  }
  CHECK(m["input_tokens"].get<double>() == f.input);
  CHECK(m["throughput_input_tokens_per_s"].get<double>() == Approx(f.input / r.metrics.wall_s));
  CHECK(m["throughput_requests_per_s"].get<double>() ==
        Approx(static_cast<double>(lines.size()) / r.metrics.wall_s));
  CHECK(m["preemptions"] == f.preempted);
  return {lines.size(), f.preempted};
}

}  // namespace

TEST_CASE("latencies: percentiles of the JSON are those of the per-request file, under load") {
  std::size_t requests = 0, preempted = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(400u, 80u); ++seed) {
    const SmallRun run = random_paged_run(seed, seed % 2 == 0);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    const RunResult r = run.run();
    const auto [served, gave_way] = check_run(r);
    CHECK(served == run.scenario.workload.log.size());
    CHECK(gave_way == r.metrics.serving.swapped_out + r.metrics.serving.dropped);
    requests += served;
    preempted += gave_way;
    for (const json& line : lines_of(requests_text("a.jsonl", {r}))) {
      const RequestRecord& asked = run.scenario.workload.log[line["request"].get<std::size_t>()];
      CHECK(line["arrival_s"] == asked.arrival_s);
      CHECK(line["prompt_tokens"] == asked.prompt_tokens);
      CHECK(line["output_tokens"] == asked.output_tokens);
    }
  }
  CHECK(requests > moelab::test::random_runs(1000u));
  CHECK(preempted > moelab::test::random_runs(30u));
}

void check_benchmark_statistics(const json& all, const std::string& name,
                                const std::vector<double>& seconds) {
  double sum = 0, squares = 0;
  for (const double v : seconds) sum += v;
  const auto n = static_cast<double>(seconds.size());
  for (const double v : seconds) squares += v * v;
  const double variance = std::max(0.0, squares / n - sum / n * (sum / n));
  const auto check = [&](const std::string& what, double expected, double margin) {
    const json& found = all[what + "_" + name + "_ms"];
    if (seconds.empty())
      CHECK(found.is_null());
    else
      CHECK(found.get<double>() == Approx(1e3 * expected).epsilon(1e-9).margin(margin));
  };
  check("mean", sum / n, 1e-12);
  check("median", seconds.empty() ? 0 : naive_percentile(seconds, 0.5), 1e-12);
  check("p99", seconds.empty() ? 0 : naive_percentile(seconds, 0.99), 1e-12);
  check("std", std::sqrt(variance), 1e-4 * sum);  // by the mean of squares, which cancels
}

TEST_CASE("latencies: a serving benchmark's file has what the lines have, and is read as one") {
  const test::ScratchFolder folder;
  std::size_t requests = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(200u, 60u); ++seed) {
    const SmallRun run = random_paged_run(seed, seed % 2 == 0);
    if (!can_run(run)) continue;
    INFO("seed " << seed);
    const RunResult r = run.run();
    const std::string text = requests_text("a.json", {r});
    const json all = json::parse(text);
    std::vector<json> lines = lines_of(requests_text("a.jsonl", {r}));
    const FromFile f = read_back(lines);
    check_benchmark_statistics(all, "ttft", f.ttft);
    check_benchmark_statistics(all, "tpot", f.tpot);
    check_benchmark_statistics(all, "itl", r.metrics.token_gaps_s);
    check_benchmark_statistics(all, "e2el", f.whole);
    check_benchmark_statistics(all, "e2e_latency", f.whole);
    CHECK(all["completed"] == lines.size());
    CHECK(all["failed"] == 0);
    CHECK(all["num_prompts"] == lines.size());
    CHECK(all["total_input_tokens"].get<double>() == f.input);
    std::stable_sort(lines.begin(), lines.end(), [](const json& a, const json& b) {
      return a["arrival_s"].get<double>() < b["arrival_s"].get<double>();
    });
    double end = 0;
    for (const json& q : lines) end = std::max(end, q["end_s"].get<double>());
    const double begin = lines.front()["arrival_s"];
    CHECK(all["duration"].get<double>() == Approx(end - begin));
    CHECK(all["request_throughput"].get<double>() ==
          Approx(static_cast<double>(lines.size()) / (end - begin)));

    std::ofstream(folder / "bench.json") << text;
    RequestImport how;
    how.kind = RequestLogKind::benchmark;
    const ImportedRequests log = import_requests(folder / "bench.json", how, {});
    REQUIRE(log.requests.size() == lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(log.requests[i].arrival_s == Approx(lines[i]["arrival_s"].get<double>() - begin).margin(1e-9));
      CHECK(log.requests[i].prompt_tokens == lines[i]["prompt_tokens"]);
      CHECK(log.requests[i].output_tokens == lines[i]["output_tokens"]);
    }
    requests += lines.size();
  }
  CHECK(requests > moelab::test::random_runs(500u));
}

TEST_CASE("latencies: a benchmark's file leaves out what was not answered, and is of one system") {
  SmallRun run = random_paged_run(1, false);
  for (std::uint64_t seed = 2; !can_run(run); ++seed) run = random_paged_run(seed, false);
  RunResult r = run.run();
  const std::size_t all = r.metrics.requests.size();
  r.metrics.requests.front().end_s = -1;  // as one whose server left
  const json told = json::parse(requests_text("a.json", {r}));
  CHECK(told["num_prompts"] == all);
  CHECK(told["completed"] == all - 1);
  CHECK(told["failed"] == 1);
  CHECK(told["input_lens"].size() == all - 1);
  for (RequestTimes& q : r.metrics.requests) q.end_s = -1;
  const json none = json::parse(requests_text("a.json", {r}));
  CHECK(none["completed"] == 0);
  CHECK(none["mean_ttft_ms"].is_null());
  CHECK(none["request_throughput"].is_null());
  check_benchmark_path("--requests", "a.json", {"one"});
  check_benchmark_path("--requests", "a.csv", {"one", "two"});
  CHECK_THROWS_WITH(check_benchmark_path("--requests", "a.json", {"one", "two"}),
                    Catch::Contains("--system with one of one, two"));
}

TEST_CASE("latencies: the same where static batches are served in turn") {
  std::size_t requests = 0;
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(300u); ++seed) {
    INFO("seed " << seed);
    const RunResult r = random_run(seed).run();
    if (r.metrics.requests.empty()) continue;
    requests += check_run(r).first;
    CHECK(results_json({unpack_result(pack_result(r))}) == results_json({r}));
    CHECK(requests_text("a.csv", {unpack_result(pack_result(r))}) == requests_text("a.csv", {r}));
  }
  CHECK(requests > moelab::test::random_runs(300u));
}

TEST_CASE("latencies: the CSV file has what the JSON lines have") {
  SmallRun run = random_paged_run(1, false);
  for (std::uint64_t seed = 2; !can_run(run); ++seed) run = random_paged_run(seed, false);
  run.scenario.systems.front().name = "a, \"b\"";
  RunResult r = run.run();
  r.metrics.requests.front().end_s = -1;  // as one whose server left
  const std::vector<json> lines = lines_of(requests_text("a.jsonl", {r}));
  std::istringstream text(requests_text("a.csv", {r}));
  std::string line, expected;
  std::getline(text, line);
  CHECK(line ==
        "system,seed,request,server,arrival_s,started_s,first_token_s,end_s,prompt_tokens,output_tokens,"
        "preempted,longest_gap_s");
  for (const json& q : lines) {
    REQUIRE(std::getline(text, line));
    expected = "\"a, \"\"b\"\"\"";
    for (const char* key : {"seed", "request", "server", "arrival_s", "started_s", "first_token_s", "end_s",
                            "prompt_tokens", "output_tokens", "preempted", "longest_gap_s"})
      expected += "," + (q[key].is_null() ? "" : q[key].dump());
    CHECK(line == expected);
  }
  CHECK_FALSE(std::getline(text, line));
  CHECK(std::ranges::count_if(lines, [](const json& q) { return q["end_s"].is_null(); }) == 1);
  CHECK_THROWS_WITH(check_requests_path("--requests", "a.txt"), Catch::Contains("ends in .jsonl"));
}

}  // namespace moelab::request_latencies_test
