// Published serving runs: reading them, what servers do by themselves, lengths, what cannot be said, and sums
// over groups of rows worked out by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/load/replay_setup.hpp"
#include "experiments/serving/front_end.hpp"
#include "experiments/serving/published_setup.hpp"
#include "experiments/serving/published_table.hpp"
#include "models/input_error.hpp"
#include "models/part.hpp"
#include "tests/random_runs.hpp"
#include "tests/scratch_folder.hpp"
#include "traces/random.hpp"

namespace moelab::published_test {

using namespace moelab::published;
namespace {

constexpr const char* kHeader =
    "id,source,date,runtime,version,model,weights,gpu,gpus,tensor_parallel,data_parallel,expert_parallel,"
    "options,users,rate,requests,lengths,prompt,output,prompt_tokens,output_tokens,duration_s,requests_per_s,"
    "output_tokens_per_s,ttft_mean_ms,ttft_median_ms,ttft_p99_ms,tpot_mean_ms,tpot_median_ms,tpot_p99_ms,"
    "itl_mean_ms,itl_median_ms,itl_p99_ms,grade,notes\n";

/// Twelve requests of 100 and 20 tokens, three at once.
constexpr const char* kRow =
    "x1,https://example.org,2025-09-01,vllm,0.11.0,qwen3-30b-a3b,bf16,h100-80gb,1,1,,,async=1,3,,12,fixed,"
    "100,20,,,,,,40,30,90,,6.5,,,,,B,assumed\n";

std::vector<ServingPoint> points_of(const std::string& rows) {
  const test::ScratchFolder scratch;
  const auto file = scratch / "points.csv";
  std::ofstream(file) << kHeader << rows;
  return read_serving_points(file.string());
}

ServingPoint point_of(std::string row = kRow) {
  return points_of(row).front();
}

std::string with(std::string row, const std::string& old, const std::string& now) {
  const std::size_t at = row.find(old);
  REQUIRE(at != std::string::npos);
  return row.replace(at, old.size(), now);
}

std::string problem_with(const std::string& rows) {
  try {
    points_of(rows);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

constexpr double kMiB = 0x1p20;

ServingPoint of_server(const std::string& runtime, const std::string& version) {
  ServingPoint point;
  point.runtime = runtime;
  point.version = version;
  return point;
}

}  // namespace

TEST_CASE("published runs: a row is read as the page has it", "[published]") {
  const ServingPoint point = point_of();
  CHECK(point.id == "x1");
  CHECK(point.users == 3u);
  CHECK(!point.rate);
  CHECK(point.requests == 12);
  CHECK(point.options.at("async") == "1");
  CHECK(point.prompt.least == 100);
  CHECK(point.output.most == 20);
  CHECK(point.measured.ttft.mean == 40.0);
  CHECK(point.measured.tpot.median == 6.5);
  CHECK(!point.measured.tpot.mean);
  CHECK(point.graded());
}

TEST_CASE("published runs: a damaged row is refused with file, line and what was expected", "[published]") {
  using Catch::Matchers::Contains;
  const std::string row = kRow;
  CHECK_THAT(problem_with(row + with(row, "x1", "x2") + row), Contains("points.csv:4") && Contains("id"));
  CHECK_THAT(problem_with(with(row, ",12,fixed", ",,fixed")), Contains("points.csv:2"));
  CHECK_THAT(problem_with(with(row, ",fixed,", ",normal,")), Contains("fixed, uniform or sharegpt"));
  CHECK_THAT(problem_with(with(row, ",100,20,", ",,20,")), Contains("expected tokens, such as 1024"));
  CHECK_THAT(problem_with(with(row, ",100,20,", ",100-50,20,")), Contains("expected tokens, such as 1024"));
  CHECK_THAT(problem_with(with(row, "fixed,100,20,", "sharegpt,,,")), Contains("tokens of all requests"));
  CHECK_THAT(problem_with(with(row, "async=1", "async")), Contains("KEY=VALUE"));
  CHECK_THAT(problem_with(with(row, ",40,30,", ",-40,30,")), Contains("expected more than nothing"));
}

TEST_CASE("published runs: servers' defaults follow GPU and version", "[published]") {
  const auto large = find_gpu("h100-80gb"), old = find_gpu("a100-80gb"), small = find_gpu("l40s");
  CHECK(engine_defaults(of_server("vllm", "0.11.0"), large).max_tokens == 8192);
  CHECK(engine_defaults(of_server("vllm", "0.11.0"), large).max_requests == 1024);
  CHECK(engine_defaults(of_server("vllm", "0.11.0"), old).max_tokens == 2048);
  CHECK(engine_defaults(of_server("vllm", "0.11.0"), small).max_requests == 256);
  CHECK(engine_defaults(of_server("vllm", "0.11.0"), old).sampling_bytes == 256 * (2 + 4 + 12 + 4 + 4));
  CHECK(!engine_defaults(of_server("vllm", "0.13.2"), large).async);
  CHECK(engine_defaults(of_server("vllm", "0.14.0"), large).async);
  ServingPoint dated = of_server("vllm", "");
  dated.date = "2026-03-01";
  CHECK(engine_defaults(dated, large).async);
  // 512 MiB, 1.5 MiB for each of 8192 tokens, 2 MiB for each of 256 requests of the largest graph, 128 MiB.
  const EngineDefaults sglang = engine_defaults(of_server("sglang", "0.5.3"), large);
  CHECK(sglang.max_tokens == 8192);
  CHECK((1 - sglang.memory_share) * replay::visible_bytes(large) ==
        Approx((512 + 1.5 * 8192 + 2 * 256 + 128) * kMiB));
  CHECK(engine_defaults(of_server("sglang", "0.5.3"), small).max_tokens == 4096);
  CHECK_THROWS_AS(engine_defaults(of_server("vlm", ""), large), InputError);
}

TEST_CASE("published runs: SGLang forms steps by its own policy, by its server's options", "[published]") {
  ServingPoint point = point_of(with(with(kRow, "vllm,0.11.0", "sglang,0.5.3"), ",async=1,", ",,"));
  const auto batching = [&] { return serving_question(point).scenario->systems.front().batching.value(); };
  CHECK(batching().policy.name == "sglang");
  CHECK(batching().policy.parameters.at("chunked_prefill_size") == 8192);
  CHECK(batching().policy.parameters.at("schedule_conservativeness") == 1);
  point.gpus = point.data_parallel = 4;
  // 8192 / 4, and 0.3 of the estimate: server_args.py, _handle_data_parallelism.
  CHECK(batching().policy.parameters.at("chunked_prefill_size") == 2048);
  CHECK(batching().policy.parameters.at("schedule_conservativeness") == 0.3);
}

TEST_CASE("published runs: lengths have the totals and the spread of their distributions", "[published]") {
  ServingPoint point = point_of();
  point.requests = 2000;
  point.shape = ServingPoint::Shape::uniform;
  point.prompt = {1, 2001};
  point.output = {500, 500};
  double prompts = 0;
  std::uint32_t least = 2001, most = 0;
  for (const RequestLengths& r : lengths_of(point)) {
    prompts += r.prompt;
    least = std::min(least, r.prompt);
    most = std::max(most, r.prompt);
    CHECK(r.output == 500);
  }
  CHECK(prompts / 2000 == Approx(1001).epsilon(1e-3));
  CHECK(least <= 3);
  CHECK(most >= 1999);

  point.shape = ServingPoint::Shape::sharegpt;
  point.prompt_tokens_all = 2000 * 220.0;
  point.output_tokens_all = 2000 * 190.0;
  std::vector<double> outputs;
  double all = 0;
  for (const RequestLengths& r : lengths_of(point)) {
    outputs.push_back(r.output);
    all += r.output;
  }
  CHECK(all == Approx(2000 * 190.0).epsilon(1e-3));
  std::sort(outputs.begin(), outputs.end());
  // Half of an exponential distribution lies below the mean times the logarithm of 2.
  CHECK(outputs[1000] == Approx(190 * std::log(2.0)).epsilon(0.01));
}

TEST_CASE("published runs: one user's tokens a second follow from the times of one request", "[published]") {
  ServingPoint point = point_of(with(kRow, ",3,,12,", ",1,,6,"));
  const std::vector<ServingPoint> points{point};
  const PredictedServing row = predicted_serving(points, 1).front();
  REQUIRE(row.why_not == "");
  const double request_ms = *row.predicted.ttft.mean + 19 * *row.predicted.tpot.mean;
  CHECK(*row.predicted.output_tokens_per_s == Approx(20 / (1e-3 * request_ms)).epsilon(1e-3));
  CHECK(*row.predicted.requests_per_s == Approx(1 / (1e-3 * request_ms)).epsilon(1e-3));
  // A token reads the experts that it goes to and all else once: no faster than the H100's memory, and no
  // slower than a fifth of it.
  const double floor_ms = 1e3 * 3e9 * 2 / 3.35e12;
  CHECK(*row.predicted.tpot.mean > floor_ms);
  CHECK(*row.predicted.tpot.mean < 5 * floor_ms);
}

TEST_CASE("published runs: more users wait longer for a token, and get more in all", "[published]") {
  std::vector<ServingPoint> points;
  for (const char* users : {",1,,12,", ",4,,12,", ",12,,12,"})
    points.push_back(point_of(with(kRow, ",3,,12,", users)));
  // All twelve at once: the front end takes them in by turns, and has all after the time of twelve.
  points.push_back(points.back());
  points.back().users.reset();
  const std::vector<PredictedServing> rows = predicted_serving(points, 2);
  for (std::size_t i = 0; i + 2 < rows.size(); ++i) {
    CHECK(*rows[i].predicted.tpot.mean < *rows[i + 1].predicted.tpot.mean);
    CHECK(*rows[i].predicted.output_tokens_per_s < *rows[i + 1].predicted.output_tokens_per_s);
  }
  const double all_in_ms = 1e3 * 12 * kFrontEnd.request_s;
  CHECK(*rows[3].predicted.ttft.mean > all_in_ms);
  CHECK(*rows[3].predicted.ttft.mean < *rows[2].predicted.ttft.mean + all_in_ms);
}

/// By another way: what is left of each request that is under way, from one event to the next.
std::vector<double> naively_taken_in(const std::vector<double>& sent, double request_s) {
  std::vector<double> left(sent.size(), request_s), come(sent.size(), -1);
  double now = 0;
  for (std::size_t done = 0; done < sent.size();) {
    std::vector<std::size_t> under_way;
    double until = 1e300;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (sent[i] <= now && come[i] < 0) under_way.push_back(i);
      if (sent[i] > now) until = std::min(until, sent[i]);
    }
    const auto n = static_cast<double>(under_way.size());
    for (const std::size_t i : under_way) until = std::min(until, now + left[i] * n);
    for (const std::size_t i : under_way) {
      left[i] -= (until - now) / n;
      if (left[i] > 1e-12) continue;
      come[i] = until;
      ++done;
    }
    now = until;
  }
  return come;
}

TEST_CASE("published runs: the front end takes requests in by turns", "[published]") {
  const FrontEnd front_end{.request_s = 2, .token_s = 1};
  // At 1 the first two have had a half each, and a third comes; they have theirs 4.5 later, and it its last
  // half after that.
  CHECK(taken_in({0, 0, 1, 9}, front_end) == std::vector<double>{5.5, 5.5, 6, 11});
  CHECK(taken_in({}, front_end).empty());
  Random random(7);
  for (int round = 0; round < test::random_runs(3000); ++round) {
    std::vector<double> sent(1 + random.below(12));
    double at = 0;
    for (double& time : sent) time = at += random.uniform() < 0.3 ? 0 : 4 * random.uniform();
    const std::vector<double> come = taken_in(sent, front_end);
    const std::vector<double> expected = naively_taken_in(sent, front_end.request_s);
    for (std::size_t i = 0; i < sent.size(); ++i) REQUIRE(come[i] == Approx(expected[i]).epsilon(1e-9));
  }
}

TEST_CASE("published runs: the front end hands tokens out one after another", "[published]") {
  const FrontEnd front_end{.request_s = 2, .token_s = 1};
  // Tokens of the engine at 10, 12 and 14, and at 10.5 and 12.5: handed out at 11, 13 and 15, and at 12
  // and 14.
  std::vector<RequestTimes> requests(2);
  requests[0].first_token_s = 10, requests[0].end_s = 14, requests[0].output_tokens = 3;
  requests[1].first_token_s = 10.5, requests[1].end_s = 12.5, requests[1].output_tokens = 2;
  const std::vector<HandedOut> out = handed_out(requests, front_end);
  CHECK(out[0].first_s == Approx(11));
  CHECK(out[0].last_s == Approx(15));
  CHECK(out[1].first_s == Approx(12));
  CHECK(out[1].last_s == Approx(14));
}

TEST_CASE("published runs: what cannot be said is not predicted, and why", "[published]") {
  using Catch::Matchers::Contains;
  const auto why = [](const std::string& old, const std::string& now) {
    return serving_question(point_of(with(kRow, old, now))).why_not;
  };
  CHECK(serving_question(point_of()).why_not == "");
  CHECK_THAT(why("async=1", "pipeline_parallel=2"), Contains("layers of their own"));
  CHECK_THAT(why("async=1", "asinc=1"), Contains("'async'"));
  CHECK_THAT(why("async=1", "max_tokens=2k"), Contains("expected a whole number"));
  CHECK_THAT(why(",3,,12,", ",3,2,12,"), Contains("users who also keep to a rate"));
  CHECK_THAT(why("h100-80gb,1,1,", "h100-80gb,4,2,"), Contains("4 GPUs are not"));
  CHECK_THAT(why("h100-80gb", "h100-80g"), Contains("'h100-80gb'"));
  CHECK_THAT(why("qwen3-30b-a3b", "qwen3-30b-a3"), Contains("'qwen3-30b-a3b'"));
  CHECK_THAT(why("vllm", "vlm"), Contains("'vllm'"));
}

TEST_CASE("published runs: groups have the medians of their counted rows", "[published]") {
  const std::vector<ServingPoint> points =
      points_of(std::string(kRow) + with(kRow, "x1", "x2") + with(kRow, "x1", "x3") +
                with(with(kRow, "x1", "x4"), ",B,", ",C,") + with(kRow, "x1", "x5"));
  std::vector<PredictedServing> rows;
  for (const ServingPoint& point : points) rows.push_back({.point = &point, .predicted = {}, .why_not = ""});
  // Of 40 ms to the first token: +10, -25 and +40 %; the fourth is shown and not counted, the fifth was not
  // run.
  rows[0].predicted.ttft.mean = 44;
  rows[1].predicted.ttft.mean = 30;
  rows[2].predicted.ttft.mean = 56;
  rows[3].predicted.ttft.mean = 4000;
  rows[4].why_not = "too large";
  rows[0].predicted.tpot.median = 13;
  const ServingErrors all = all_serving_errors(rows);
  CHECK(all.of[1].rows == 3);
  CHECK(all.of[1].absolute == Approx(0.25));
  CHECK(all.of[1].signed_median == Approx(0.1));
  CHECK(all.of[2].rows == 1);
  CHECK(all.of[2].signed_median == Approx(1));
  CHECK(all.of[0].rows == 0);
  const auto by_id = serving_errors(rows, [](const PredictedServing& row) { return row.point->id; });
  REQUIRE(by_id.size() == 3);
  CHECK(by_id[1].name == "x2");
  CHECK(by_id[1].of[1].signed_median == Approx(-0.25));

  const nlohmann::ordered_json document = serving_document(rows, {"folder/points.csv"});
  CHECK(document["files"][0] == "points.csv");
  CHECK(document["groups"][0]["ttft"]["rows"] == 3);
  CHECK(document["groups"][0]["throughput"].is_null());
  CHECK(document["rows"][3]["counted"] == false);
  CHECK(document["rows"][4]["why_not"] == "too large");
  CHECK(document["rows"][4]["predicted"].is_null());
  const std::string text = serving_text(rows);
  CHECK(text.find("x4 (C)") != std::string::npos);
  CHECK(text.find("not predicted: x5") != std::string::npos);
}

}  // namespace moelab::published_test
