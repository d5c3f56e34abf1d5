// What warm-up and cool-down leave out: against naive code on the per-request file; and whether the rest is a
// steady state, against queues of which theory says it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/results/request_file.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/results/steady_state.hpp"
#include "sim/serving/measured_range.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::measured_range_test {

using namespace moelab::test;
using nlohmann::json;

namespace {

std::vector<json> lines_of(const RunResult& r) {
  std::vector<json> lines;
  std::istringstream text(requests_jsonl({r}));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

/// One server, first come, first served, with exponential gaps and service times of mean 1.
std::vector<RequestTimes> single_queue(double rate, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  const auto exponential = [&] { return -std::log(1 - random.uniform()); };
  std::vector<RequestTimes> requests(count);
  double now = 0, free = 0;
  for (RequestTimes& q : requests) {
    q.arrival_s = now += exponential() / rate;
    q.started_s = std::max(now, free);
    free = q.end_s = q.started_s + exponential();
  }
  return requests;
}

SteadyVerdict verdict_of(const std::vector<RequestTimes>& requests) {
  return steady_state(requests, requests.front().arrival_s, requests.back().arrival_s).verdict;
}

/// A run of a random scenario; nothing where it cannot run.
std::optional<RunResult> run_with(std::uint64_t seed, const LeftOutEnds& out, std::size_t least) {
  SmallRun run = random_paged_run(seed, false);
  if (!can_run(run) || run.scenario.workload.log.size() < least) return std::nullopt;
  run.scenario.workload.left_out = out;
  try {
    return run.run();
  } catch (const InputError&) {
    return std::nullopt;  // nothing would be left
  }
}

void check_mean(const json& found, const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  if (values.empty())
    CHECK(found.is_null());
  else
    CHECK(found.get<double>() == Approx(sum / static_cast<double>(values.size())).epsilon(1e-9));
}

/// Holds a run's JSON against its per-request file, of which `counts` says which lines count.
template <class Counts>
void check_statistics(const RunResult& r, const Counts& counts) {
  const json j = json::parse(results_json({r}));
  std::vector<double> ttft, whole, tpot;
  double gaps = 0, gaps_s = 0, answered = 0;
  const double begin = j["measured"]["begin_s"], end = j["measured"]["end_s"];
  std::size_t in_file = 0;
  for (const json& q : lines_of(r)) {
    const double first = q["first_token_s"], last = q["end_s"], arrival = q["arrival_s"];
    answered += last > begin && last <= end ? 1 : 0;
    CHECK(q["measured"] == counts(q));
    if (!counts(q)) continue;
    ++in_file;
    ttft.push_back(first - arrival);
    whole.push_back(last - arrival);
    if (q["output_tokens"] == 1) continue;
    tpot.push_back((last - first) / (q["output_tokens"].get<double>() - 1));
    gaps += q["output_tokens"].get<double>() - 1;
    gaps_s += last - first;
  }
  const json& m = j["metrics"];
  CHECK(j["measured"]["requests"] == in_file);
  CHECK(j["measured"]["left_out_requests"] == r.metrics.requests.size() - in_file);
  CHECK(m["requests"] == in_file);
  check_mean(m["ttft_s"], ttft);
  check_mean(m["end_to_end_s"], whole);
  check_mean(m["tpot_s"]["mean"], tpot);
  if (gaps > 0) CHECK(m["itl_s"]["mean"].get<double>() == Approx(gaps_s / gaps).epsilon(1e-9));
  const double span = end - begin;
  CHECK(m["throughput_requests_per_s"].get<double>() == Approx(span > 0 ? answered / span : 0));
}

/// Of requests left out by number: from the first measured arrival to the last, or where they come at one
/// moment to the last measured answer.
template <class Counts>
void check_ends_by_number(const RunResult& r, bool from_first, const Counts& counts) {
  double first = 1e300, last = 0, answer = 0;
  for (const json& q : lines_of(r)) {
    if (!counts(q)) continue;
    first = std::min(first, q["arrival_s"].get<double>());
    last = std::max(last, q["arrival_s"].get<double>());
    answer = std::max(answer, q["end_s"].get<double>());
  }
  const json measured = json::parse(results_json({r}))["measured"];
  const double begin = from_first ? first : 0;
  CHECK(measured["begin_s"].get<double>() == begin);
  CHECK(measured["end_s"].get<double>() == (last <= begin ? answer : last));
}

}  // namespace

TEST_CASE("measured: requests of warm-up and cool-down are in no statistic") {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(80u, 40u); ++seed) {
    const std::uint64_t first = seed % 3, last = seed % 2;
    LeftOutEnds out;
    out.warm_up = LeftOutEnds::Part{.requests = first};
    out.cool_down = LeftOutEnds::Part{.requests = last};
    const auto r = run_with(seed, out, first + last + 1);
    if (!r) continue;
    INFO("seed " << seed);
    const std::size_t count = r->metrics.requests.size();
    const auto counts = [&](const json& q) { return q["request"] >= first && q["request"] < count - last; };
    check_statistics(*r, counts);
    check_ends_by_number(*r, first > 0, counts);
    CHECK(results_json({unpack_result(pack_result(*r))}) == results_json({*r}));
    ++seen;
  }
  CHECK(seen > random_runs(20u, 10u));
}

TEST_CASE("measured: the same by time") {
  std::size_t seen = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(80u, 40u); ++seed) {
    const auto whole = run_with(seed, {}, 3);
    if (!whole) continue;
    double latest = 0;
    for (const RequestTimes& q : whole->metrics.requests) latest = std::max(latest, q.arrival_s);
    LeftOutEnds out;
    out.warm_up = LeftOutEnds::Part{.seconds = latest * 0.3};
    if (seed % 2 == 0) out.cool_down = LeftOutEnds::Part{.seconds = latest * 0.2};
    const auto r = run_with(seed, out, 3);
    if (!r) continue;
    INFO("seed " << seed);
    const double end = seed % 2 == 0 ? latest - latest * 0.2 : latest;
    check_statistics(*r,
                     [&](const json& q) { return q["arrival_s"] >= latest * 0.3 && q["arrival_s"] <= end; });
    CHECK(r->metrics.wall_s == whole->metrics.wall_s);  // nothing runs otherwise
    if (latest > 0)
      CHECK(r->metrics.measured.end_s == Approx(seed % 2 == 0 ? latest - latest * 0.2 : r->metrics.wall_s));
    ++seen;
  }
  CHECK(seen > random_runs(12u, 6u));
}

TEST_CASE("measured: a warm-up that leaves nothing is refused") {
  SmallRun run = paged_run(small_model({}), {"resident"});
  run.scenario.workload.left_out.warm_up = LeftOutEnds::Part{.requests = 4};
  CHECK_THROWS_WITH(run.run(), Catch::Contains("they leave out 4 of 4 requests"));
  run.scenario.workload.left_out.warm_up = LeftOutEnds::Part{.seconds = 60};
  CHECK_THROWS_WITH(run.run(), Catch::Contains("the 4 requests come from 0 s to 0 s"));
  run.scenario.workload.left_out = {};
  run.scenario.workload.left_out.cool_down = LeftOutEnds::Part{.seconds = 1};
  run.scenario.workload.closed_loop = ClosedLoop{};
  CHECK_THROWS_WITH(run.run(), Catch::Contains("expected a number of requests"));
}

TEST_CASE("measured: so is one that leaves nothing, which is known when the run is over") {
  SmallRun run = paged_run(small_model({}), {"resident"});
  run.scenario.workload.left_out.warm_up = LeftOutEnds::Part{.seconds = 100'000};
  run.scenario.workload.closed_loop = ClosedLoop{};
  CHECK_THROWS_WITH(run.run(), Catch::Contains("leave nothing for statistics: the 4 requests come from 0 s"));
  const Files files;
  const Scenario s = files.load({{"workload.warm_up", "100000 s"}});
  CHECK_THROWS_WITH(run_system(s, s.systems[0], scenario_trace(s)),
                    Catch::Contains("leave nothing for statistics: the 4 requests come from 0 s"));
}

TEST_CASE("measured: of requests in turn, until the last of them is answered") {
  const Files files;  // batches of two, five tokens each
  const Scenario s =
      files.load({{"workload.requests", "8"}, {"workload.warm_up", "2"}, {"workload.cool_down", "2"}});
  const RunResult r = run_system(s, s.systems[0], scenario_trace(s));
  double begin = r.metrics.wall_s, end = 0;
  for (const RequestTimes& q : r.metrics.requests) {
    CHECK(q.measured == (q.number >= 2 && q.number < 6));
    if (!q.measured) continue;
    begin = std::min(begin, q.arrival_s);
    end = std::max(end, q.end_s);
  }
  CHECK(r.metrics.measured.begin_s == begin);
  CHECK(r.metrics.measured.end_s == end);
  const json m = json::parse(results_json({r}))["metrics"];
  CHECK(m["throughput_requests_per_s"].get<double>() == Approx(4 / (end - begin)));
  CHECK(m["throughput_tokens_per_s"].get<double>() == Approx(20 / (end - begin)));
  CHECK_THAT(results_table(s, {r}),
             Catch::Contains("4 measured request(s) of 8, 40 tokens generated for all") &&
                 Catch::Contains("pooled: measured from ") && Catch::Contains(" s, 4 of 8 requests; "));
}

TEST_CASE("measured: the CSV file's header is that of its lines, also where the first system does not fit") {
  const Files files;
  const Scenario s = files.load({{"workload.warm_up", "2"}});
  const RunResult ran = run_system(s, s.systems[0], scenario_trace(s));
  RunResult large;
  large.memory.shortfall = Bytes(1);
  const std::string csv = requests_csv({large, ran});
  CHECK(csv == requests_csv({ran}));
  CHECK_THAT(csv.substr(0, csv.find('\n')), Catch::EndsWith(",measured"));
}

// Requests of 1 s each, every g s: below capacity (g = 2) half of the time one is in the system; above it
// (g = 0.5) of those that came by t, 2 t, t were answered, so that t are in the system: T / 4 in the mean of
// the first half, 3 T / 4 of the second.
TEST_CASE("steady state: of requests that come evenly") {
  std::vector<RequestTimes> even(401), crowd(401);
  for (std::size_t i = 0; i < even.size(); ++i) {
    const auto n = static_cast<double>(i);
    even[i].arrival_s = 2 * n;
    even[i].end_s = 2 * n + 1;
    crowd[i].arrival_s = 0.5 * n;
    crowd[i].end_s = n + 1;
  }
  const SteadyState steady = steady_state(even, 0, 800);
  CHECK(steady.verdict == SteadyVerdict::steady);
  CHECK(steady.first_half == Approx(0.5));
  CHECK(steady.second_half == Approx(0.5));
  const SteadyState drifting = steady_state(crowd, 0, 200);
  CHECK(drifting.first_half == Approx(50).epsilon(0.03));
  CHECK(drifting.second_half == Approx(150).epsilon(0.03));
  CHECK(drifting.verdict == SteadyVerdict::unsettled);  // they stay for 100 s in the median
  CHECK(steady_state(even, 0, 3).verdict == SteadyVerdict::unsettled);
  CHECK(steady_state({}, 0, 0).verdict == SteadyVerdict::unsettled);
}

// M/M/1: below capacity the number in the system has one distribution once the queue has filled; above it by
// a quarter, after n requests (1 - 1 / 1.25) n wait. Three standard errors are exceeded in 0.3 % of runs
// where parts are independent; their correlation is only estimated, so one in twenty is allowed.
TEST_CASE("steady state: a queue below capacity is steady, one above it drifts") {
  std::size_t drifts = 0, runs = 0, grows = 0;
  for (std::uint64_t seed = 1; seed <= random_runs(60u, 40u); ++seed, ++runs) {
    std::vector<RequestTimes> requests = single_queue(0.5, 2000, seed);
    for (std::size_t i = 0; i < 200; ++i) requests[i].measured = false;
    drifts += steady_state(requests, requests[200].arrival_s, requests.back().arrival_s).verdict ==
              SteadyVerdict::drifting;
    grows += verdict_of(single_queue(1.25, 2000, seed)) == SteadyVerdict::drifting;
  }
  CHECK(drifts <= runs / 20);
  CHECK(grows == runs);
}

}  // namespace moelab::measured_range_test
