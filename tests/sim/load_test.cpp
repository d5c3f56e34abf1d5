// Service levels, verdicts and the search for the highest rate.
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "policies/batching/batching.hpp"
#include "sim/load/load_curve.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::load_test {

using Catch::Contains;
using namespace moelab::test;

namespace {

/// Requests of a service time of 1 s, one at a time, that come every `gap` seconds.
std::vector<RequestTimes> in_line(std::size_t count, double gap) {
  std::vector<RequestTimes> requests;
  double free = 0;
  for (std::size_t i = 0; i < count; ++i) {
    RequestTimes q{.number = static_cast<std::uint32_t>(i), .arrival_s = static_cast<double>(i) * gap};
    q.started_s = std::max(free, q.arrival_s);
    q.first_token_s = q.started_s + 0.5;
    free = q.end_s = q.started_s + 1;
    q.output_tokens = 2;
    q.longest_gap_s = 0.5;
    requests.push_back(q);
  }
  return requests;
}

LoadVerdict verdict(std::size_t count, double gap) {
  return verdict_of(backlog_of(in_line(count, gap)), 1 / gap);
}

/// As a server of batches has them: requests come by chance at `rate`, as many as `places` are served at
/// once, each for 0.5 s to 1.5 s from the end of a step of 10 ms on. It takes `places` requests a second.
std::vector<RequestTimes> in_a_batch(double rate, std::size_t count, int places, std::mt19937& random) {
  std::exponential_distribution<double> gap(rate);
  std::uniform_real_distribution<double> service(0.5, 1.5);
  std::multiset<double> ends;
  std::vector<RequestTimes> requests;
  double at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    RequestTimes q{.number = static_cast<std::uint32_t>(i), .arrival_s = at += gap(random)};
    double begin = at;
    if (ends.size() == static_cast<std::size_t>(places)) {
      begin = std::max(begin, *ends.begin());
      ends.erase(ends.begin());
    }
    q.started_s = 0.01 * std::ceil(begin / 0.01);
    q.first_token_s = q.end_s = q.started_s + service(random);
    ends.insert(q.end_s);
    q.output_tokens = 1;
    requests.push_back(q);
  }
  return requests;
}

/// Requests that come by chance at `rate` share a server that does 15 s of work a second, 1 s at most of each
/// request's; each has 0.5 to 1.5 s of it, and is begun when it comes.
std::vector<RequestTimes> sharing(double rate, std::size_t count, std::mt19937& random) {
  constexpr double kCapacity = 15;
  std::exponential_distribution<double> gap(rate);
  std::uniform_real_distribution<double> work(0.5, 1.5);
  std::vector<RequestTimes> requests;
  std::vector<std::pair<double, std::size_t>> left;  // work and request, of those under way
  double now = 0, next = gap(random);
  while (requests.size() < count || !left.empty()) {
    const double pace = left.empty() ? 1 : std::min(1.0, kCapacity / static_cast<double>(left.size()));
    const auto first = std::min_element(left.begin(), left.end());
    const double end = left.empty() ? INFINITY : now + first->first / pace;
    const double arrival = requests.size() < count ? next : INFINITY;
    const double then = std::min(end, arrival);
    for (auto& one : left) one.first -= (then - now) * pace;
    now = then;
    if (end <= arrival) {
      requests[first->second].first_token_s = requests[first->second].end_s = now;
      left.erase(first);
    } else {
      RequestTimes q{.number = static_cast<std::uint32_t>(requests.size()), .arrival_s = now};
      q.started_s = now;
      q.output_tokens = 1;
      left.emplace_back(work(random), requests.size());
      requests.push_back(q);
      next = now + gap(random);
    }
  }
  return requests;
}

std::string refusal(const std::string& text) {
  try {
    parse_service_level("--slo", text);
  } catch (const InputError& error) {
    return all_of(error.problems());
  }
  return "";
}

/// The two systems of the small scenario.
LoadSettings small_load(const Files& files) {
  LoadSettings settings;
  settings.scenario = files.path("scenario.yaml");
  settings.requests = 60;
  settings.seeds = 2;
  settings.jobs = 2;
  return settings;
}

}  // namespace

TEST_CASE("service level: conditions are read as they are written") {
  const ServiceLevel level =
      parse_service_level("--slo", " ttft p95 < 500 ms,tpot mean<=50ms; e2e  p99.9 < 1.5 min ");
  REQUIRE(level.clauses.size() == 3);
  CHECK(level.clauses[0].latency == Latency::ttft);
  CHECK(level.clauses[0].quantile == Approx(0.95));
  CHECK(level.clauses[0].limit_s == Approx(0.5));
  CHECK(level.clauses[1].latency == Latency::tpot);
  CHECK_FALSE(level.clauses[1].quantile.has_value());
  CHECK(level.clauses[1].limit_s == Approx(0.05));
  CHECK(level.clauses[2].quantile == Approx(0.999));
  CHECK(level.clauses[2].limit_s == Approx(90));
  CHECK(level.text == "ttft p95 < 500 ms,tpot mean<=50ms, e2e  p99.9 < 1.5 min");
  CHECK(to_string(level.clauses[0]) == "ttft p95 < 500 ms");
  const ServiceLevel semicolons = parse_service_level("--slo", "ttft p95 < 500 ms; tpot mean < 50 ms");
  REQUIRE(semicolons.clauses.size() == 2);
  CHECK(to_string(semicolons.clauses[0]) == "ttft p95 < 500 ms");
  CHECK(to_string(semicolons.clauses[1]) == "tpot mean < 50 ms");
  CHECK_THAT(refusal("ttft p95 < 500 ms and tpot mean < 50 ms"),
             Contains("has two limits; expected ',' between conditions"));
  CHECK_THAT(refusal("ttft p95 << 500 ms"), Contains("the limit of ttft is '< 500 ms'; expected "));
  CHECK(to_string(parse_service_level("--slo", "TTFT P95 < 500 ms").clauses[0]) == "ttft p95 < 500 ms");
  CHECK_THAT(refusal("TTFT p95 < 1 s, ttft P95 < 2 s"), Contains("limits already"));
}

TEST_CASE("service level: what is wrong is said, all at once, with the nearest name") {
  CHECK_THAT(refusal("tft p95 < 1 s"), Contains("--slo: there is no latency 'tft' (did you mean 'ttft'?)"));
  CHECK_THAT(refusal("latency p95 < 1 s"), Contains("(known: ttft, tpot, itl, e2e, normalised, queueing)"));
  CHECK_THAT(refusal("ttft q95 < 1 s"), Contains("'q95' is no statistic"));
  CHECK_THAT(refusal("ttft p100 < 1 s"), Contains("between p0 and p100"));
  CHECK_THAT(refusal("ttft p0 < 1 s"), Contains("between p0 and p100"));
  CHECK_THAT(refusal("ttft pp < 1 s"), Contains("is no statistic"));
  CHECK_THAT(refusal("ttft < 1 s"), Contains("says neither mean nor a percentile"));
  CHECK_THAT(refusal("ttft p95 of < 1 s"), Contains("'of' stands behind 'p95'"));
  CHECK_THAT(refusal("ttft p95 > 1 s"), Contains("says no limit"));
  CHECK_THAT(refusal("ttft p95 < 500"), Contains("expected a time with a unit"));
  CHECK_THAT(refusal("ttft p95 <"), Contains("expected a time with a unit"));
  CHECK_THAT(refusal("ttft p95 < 0 s"), Contains("is not above 0"));
  CHECK_THAT(refusal("ttft p95 < -1 s"), Contains("is not above 0"));
  CHECK_THAT(refusal("ttft p95 < 1 s, ttft p95 < 2 s"), Contains("limits already"));
  CHECK_THAT(refusal(""), Contains("says no limit"));
  CHECK_THAT(refusal("ttft p95 < 1 s,"), Contains("says no limit"));
  const std::string both = refusal("tftt p95 < 1 s, tpot x < 1 s");
  CHECK_THAT(both, Contains("'tftt'") && Contains("'x'"));
}

TEST_CASE("service level: a request meets it where all that it has is within the limits") {
  const ServiceLevel level =
      parse_service_level("--slo", "ttft p95 < 1 s, tpot p50 < 100 ms, itl p99 < 200 ms");
  RequestTimes q{.arrival_s = 1, .started_s = 1.2, .first_token_s = 1.9, .end_s = 2.81};
  q.output_tokens = 10;  // nine gaps in 0.91 s
  q.longest_gap_s = 0.19;
  CHECK_FALSE(meets(q, level));
  q.end_s = 2.79;
  CHECK(meets(q, level));
  q.longest_gap_s = 0.21;
  CHECK_FALSE(meets(q, level));
  q.longest_gap_s = 0.19;
  q.first_token_s = 2;
  CHECK_FALSE(meets(q, level));
  RequestTimes short_one{.arrival_s = 1, .started_s = 1, .first_token_s = 1.9, .end_s = 1.9};
  short_one.output_tokens = 1;
  CHECK(meets(short_one, level));  // has no gap
  short_one.end_s = -1;
  CHECK_FALSE(meets(short_one, level));
}

// One at a time in 1 s each: of n requests every g < 1 s, n / 2 come in the second half, and g n / 2 are
// answered in it.
TEST_CASE("verdict: what comes, is started and answered in the second half, and the least wait there") {
  const Backlog b = backlog_of(in_line(1001, 0.8));  // from 0 to 800 s
  CHECK(b.came == 500);
  CHECK(b.started == 400);
  CHECK(b.answered == 400);
  CHECK(b.half_s == Approx(400));
  CHECK(b.residence_s == Approx(1));
  CHECK(b.least_wait_s == Approx(501 * 0.2));           // the 501st has waited 0.2 s more than each before it
  const Backlog steady = backlog_of(in_line(1001, 2));  // from 0 to 2000 s; the last one ends later
  CHECK(steady.came == 500);
  CHECK(steady.started == 500);
  CHECK(steady.answered == 500);  // of them one from before and all but the last
  CHECK(steady.least_wait_s == 0);
}

TEST_CASE("verdict: saturated where a queue stands and less is taken than comes, however little less") {
  CHECK(verdict(1001, 2) == LoadVerdict::steady);
  CHECK(verdict(1001, 1) == LoadVerdict::steady);
  CHECK(verdict(1001, 0.99) == LoadVerdict::saturated);
  CHECK(verdict(1001, 0.5) == LoadVerdict::saturated);
  CHECK(verdict(1001, 0.003) == LoadVerdict::unsettled);  // all come in 3 s, and stay for 1 s each
  CHECK(verdict_of(backlog_of(in_line(1001, 0)), 1e9) == LoadVerdict::unsettled);
  // A burst that is worked off: a queue stands, but more is taken than comes.
  Backlog burst = backlog_of(in_line(1001, 0.9));
  CHECK(verdict_of(burst, 1 / 0.9) == LoadVerdict::saturated);
  CHECK(verdict_of(burst, 0.95) == LoadVerdict::steady);
  // Of several seeds as many decide as decide of what is found: two of three, and both of two.
  const Backlog steady = backlog_of(in_line(1001, 1.1));
  const auto of_seeds = [](const std::vector<Backlog>& seeds, double rate) {
    std::vector<LoadVerdict> verdicts;
    for (const Backlog& b : seeds) verdicts.push_back(verdict_of(b, rate));
    return verdict_of_seeds(verdicts);
  };
  CHECK(of_seeds({burst, steady, steady}, 1.0) == LoadVerdict::steady);
  CHECK(of_seeds({burst, burst, steady}, 1.05) == LoadVerdict::saturated);
  CHECK(of_seeds({burst, steady}, 1.05) == LoadVerdict::saturated);
}

TEST_CASE(
    "verdict: of a batch whose rate is known, below it steady and above it saturated, in short runs too") {
  constexpr int kPlaces = 100, kRuns = random_runs(100);
  const auto saturated = [&](double load, std::size_t requests, bool logged) {
    int count = 0;
    for (int i = 0; i < kRuns; ++i) {
      std::mt19937 random(static_cast<std::uint32_t>(i) + 1);
      const double rate = kPlaces * load;
      const Backlog b = backlog_of(in_a_batch(rate, requests, kPlaces, random));
      count += verdict_of(b, logged ? std::nullopt : std::optional(rate)) == LoadVerdict::saturated ? 1 : 0;
    }
    return count;
  };
  for (const bool logged : {false, true})
    for (const double below : {0.5, 0.8, 0.9, 0.95}) {
      CAPTURE(logged, below);
      CHECK(saturated(below, 1000, logged) <= kRuns / 20);
      CHECK(saturated(below, 4000, logged) <= kRuns / 20);
    }
  for (const double above : {1.1, 1.2, 1.5}) {
    CAPTURE(above);
    CHECK(saturated(above, 4000, false) >= kRuns * 95 / 100);
    CHECK(saturated(above, 4000, true) >= kRuns * 95 / 100);
  }
  CHECK(saturated(1.05, 20000, false) >= kRuns * 95 / 100);
}

TEST_CASE("verdict: where all are begun when they come, what is under way piles up beyond the capacity",
          "[plain]") {
  constexpr int kRuns = random_runs(100);
  const auto not_steady = [&](double load) {
    int count = 0;
    for (int i = 0; i < kRuns; ++i) {
      std::mt19937 random(static_cast<std::uint32_t>(i) + 1);
      const Backlog b = backlog_of(sharing(15 * load, 4000, random));
      count += verdict_of(b, 15 * load) != LoadVerdict::steady ? 1 : 0;
    }
    return count;
  };
  for (const double below : {0.5, 0.8, 0.9}) CHECK(not_steady(below) <= kRuns / 20);
  for (const double above : {1.2, 1.5}) CHECK(not_steady(above) >= kRuns * 95 / 100);
}

TEST_CASE("load: a sample is what a run at that rate comes to") {
  const Files files;
  LoadSettings settings = small_load(files);
  settings.level = parse_service_level("--slo", "ttft p95 < 20 ms");
  LoadRuns runs(settings);
  REQUIRE(runs.systems() == 2);
  CHECK(runs.requests() == 60);
  const std::vector<LoadSample> samples = runs.run({{1, 40, 1}, {0, 8, 0}}, {});
  REQUIRE(samples.size() == 2);
  const std::vector<std::pair<std::string, std::string>> set = {
      {"workload.requests", "60"}, {"workload.arrivals_per_s", "40"}, {"seed", "4"}};
  const Scenario s = files.load(set);
  const RunResult r = run_system(s, s.systems[1], scenario_trace(s));
  const Summary ttft = summarize(r.metrics.ttft_s);
  CHECK(samples[0].of(Latency::ttft)->p95 == ttft.p95);
  CHECK(samples[0].of(Latency::end_to_end)->mean == mean(r.metrics.end_to_end_s));
  CHECK(samples[0].tokens_per_s == 300 / r.metrics.wall_s);
  CHECK(samples[0].answered == 60);
  CHECK(samples[0].holding == std::vector<bool>{ttft.p95 < 0.02});
  std::uint64_t within = 0;
  for (const double seconds : r.metrics.ttft_s) within += seconds < 0.02 ? 1 : 0;
  CHECK(samples[0].met == within);
}

// One at a time in 1 s each, two a second: request i comes at i / 2 s, is answered at i + 1 s and so took
// 1 + i / 2 s. Of 20, those from 2 to 13 are measured, from 1 s to 6.5 s: then 1 to 5 are answered.
TEST_CASE("load: goodput is of the requests answered in the measured seconds") {
  RunResult r;
  r.metrics.requests = in_line(20, 0.5);
  for (RequestTimes& q : r.metrics.requests) {
    q.preempted = q.number + 1;
    q.measured = q.number >= 2 && q.number <= 13;
  }
  r.metrics.measured = {.whole = false, .begin_s = 1, .end_s = 6.5};
  const LoadSample all = sample_of(r, parse_service_level("--slo", "e2e p95 < 100 s"));
  CHECK(all.requests == 12);
  CHECK(all.preemptions == 102);  // 3 to 14 added up
  CHECK(all.answered_per_s() == Approx(5 / 5.5));
  CHECK(all.met_share() == 1);
  CHECK(all.goodput() == Approx(5 / 5.5));  // not 12
  const LoadSample some = sample_of(r, parse_service_level("--slo", "e2e p95 < 3.2 s"));
  CHECK(some.met == 3);                      // 2 to 4
  CHECK(some.goodput() == Approx(4 / 5.5));  // 1 to 4
  CHECK(unpack_sample(pack_sample(some)).goodput() == some.goodput());
}

// As above, requests 1, 3, ... of class b: those from 2 to 13 are six of each, and of those that are answered
// from 1 s to 6.5 s, 2 and 4 are of a, 1, 3 and 5 of b.
TEST_CASE("load: of each class what its requests met, by the limits for it and for all") {
  RunResult r;
  r.classes = {"a", "b"};
  r.metrics.requests = in_line(20, 0.5);
  for (RequestTimes& q : r.metrics.requests) {
    q.of_class = static_cast<std::uint16_t>(q.number % 2);
    q.measured = q.number >= 2 && q.number <= 13;
  }
  r.metrics.measured = {.whole = false, .begin_s = 1, .end_s = 6.5};
  const ServiceLevel level =
      parse_service_level("--slo", "e2e p95 < 7.2 s, b e2e p95 < 3.2 s, a e2e p99 < 5.2 s", {"a", "b"});
  const LoadSample read = unpack_sample(pack_sample(sample_of(r, level)));
  REQUIRE(read.classes.size() == 2);
  const ClassSample &a = read.classes[0], &b = read.classes[1];
  CHECK((a.requests == 6 && b.requests == 6));
  CHECK((a.answered == 2 && b.answered == 3));
  CHECK(a.met_share() == Approx(4.0 / 6));  // 2, 4, 6 and 8 take up to 5 s
  CHECK(b.met_share() == Approx(1.0 / 6));  // 3 takes 2.5 s, 5 takes 3.5 s
  CHECK((a.good == 2 && b.good == 2));      // 2 and 4; 1 and 3
  CHECK((read.met == a.met + b.met && read.good == a.good + b.good));
  REQUIRE((a.of(Latency::end_to_end) != nullptr && b.of(Latency::end_to_end) != nullptr));
  CHECK(a.of(Latency::end_to_end)->mean == Approx(1 + 0.5 * 7));  // of 2, 4, ... 12
  CHECK(b.of(Latency::end_to_end)->p50 == Approx(1 + 0.5 * 8));   // of 3, 5, ... 13
  CHECK(a.of(Latency::itl) == nullptr);                           // no gaps were kept
}

// Each half of a run is to last ten times as long as a request stays: at a rate r requests that stay for t
// are r t at once, and come in 20 t.
TEST_CASE("load: runs have twenty times the requests that are in service at once, 2,000 at least") {
  CHECK(requests_to_settle(0) == 2000);
  CHECK(requests_to_settle(100) == 2000);
  CHECK(requests_to_settle(117.2) == 2344);
  const Files files;
  LoadSettings settings = small_load(files);
  LoadRuns asked(settings);
  asked.settle({});
  CHECK(asked.requests() == 60);  // as many as were asked for
  settings.requests = 0;
  LoadRuns runs(settings);
  runs.settle({});
  CHECK(runs.requests() == kLeastRequests);  // two at a time
  settings.settings = {{"workload.batch", "128"}, {"budget", "4 MB"}};
  LoadRuns many(settings);
  many.settle({});
  double in_service = 0;
  for (const std::size_t system : {std::size_t{0}, std::size_t{1}}) {
    const LoadSample sample = many.run({{system, kAtOnce, 0}}, {}).front();
    in_service = std::max(in_service, sample.answered_per_s() * sample.backlogs.front().residence_s);
  }
  CHECK(many.requests() > kLeastRequests);
  CHECK(static_cast<double>(many.requests()) == Approx(20 * in_service).epsilon(0.1));
}

namespace {

/// As 'continuous', from a library that fails where more than 100 requests wait.
class FewWaiting final : public BatchingPolicy {
 public:
  explicit FewWaiting(const BatchingShape& shape)
      : inner_(find_batching_policy("continuous")->make(shape, {})) {}
  std::string misfit(const BatchRequest& request) const override { return inner_->misfit(request); }
  void arrive(const BatchRequest& request) override { inner_->arrive(request); }
  bool form(BatchStep& step) override {
    if (inner_->use().waiting > 100) throw InputError("", "more than 100 requests wait");
    return inner_->form(step);
  }
  void complete() override { inner_->complete(); }
  void resize(std::uint64_t blocks) override { inner_->resize(blocks); }
  KvUse use() const override { return inner_->use(); }

 private:
  std::unique_ptr<BatchingPolicy> inner_;
};

}  // namespace

TEST_CASE("load: where not all requests can be there at once the rates that are asked for are run") {
  batching_policies().add(
      {.info = {.name = "few-waiting", .help = "", .source = "", .library = "few.so"},
       .make = [](const BatchingShape& shape, const PolicyParameters&) -> std::unique_ptr<BatchingPolicy> {
         return std::make_unique<FewWaiting>(shape);
       }});
  Files files;
  LoadSettings settings = small_load(files);
  settings.requests = 0;
  files.change("pooled.yaml", "shards: 2\n", "shards: 2\nbatching: {policy: few-waiting}\n");
  {
    LoadRuns runs(settings);
    REQUIRE_NOTHROW(runs.settle({}));
    CHECK(runs.requests() == kLeastRequests);  // by the other system
    const std::vector<std::string> notes = runs.notes();
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes.front(), Contains("of system 'pooled' needs") &&
                                  Contains("more than 100 requests wait") &&
                                  Contains("runs have " + std::to_string(kLeastRequests)));
    CHECK(runs.run({{0, 1, 0}}, {}).front().answered == kLeastRequests);
    CHECK_THROWS_WITH(runs.run({{0, kAtOnce, 0}}, {}), Contains("more than 100 requests wait"));
  }
  batching_policies().take_back("few.so");
}

TEST_CASE("load: what a log's pace is said to be changes nothing, and that is said") {
  Files files;
  files.write("log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n0.5,2,2\n1,2,2\n");
  files.change("scenario.yaml", "  requests: 4\n  prompt_tokens: 3\n  output_tokens: 5\n",
               "  request_log: log.csv\n");
  LoadSettings settings = small_load(files);
  settings.requests = 0;
  LoadRuns plain(settings);
  CHECK(plain.notes().empty());
  for (const char* const key : {"speed", "rate"}) {
    settings.settings = {{"workload." + std::string(key), "2"}};
    LoadRuns runs(settings);
    REQUIRE(runs.notes().size() == 1);
    CHECK_THAT(runs.notes().front(), Contains("workload." + std::string(key) + " changes nothing here"));
    CHECK(runs.run({{0, 4, 0}}, {}).front().wall_s == Approx(plain.run({{0, 4, 0}}, {}).front().wall_s));
  }
}

TEST_CASE("load: what is left out is of the requests that a run has, not of the scenario's") {
  const Files files;  // of four requests
  LoadSettings settings = small_load(files);
  settings.level = parse_service_level("--slo", "e2e p95 < 60 ms");
  settings.settings = {{"workload.warm_up", "10"}, {"workload.cool_down", "20"}};
  LoadRuns runs(settings);
  for (const double rate : {1.0, 40.0, 1e4})
    for (const LoadSample& sample : runs.run({{0, rate, 0}, {1, rate, 1}}, {})) {
      CHECK(sample.requests == 30);
      CHECK(sample.goodput() <= sample.answered_per_s());
      CHECK(sample.met_share() <= 1);
    }
  settings.requests = 0;
  CHECK(LoadRuns(settings).requests() == kLeastRequests);
  settings.requests = 30;
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("30 of 30 requests are left out"));
  settings.settings = {{"workload.warm_up", "10 s"}};
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("expected a number of requests"));
  settings.settings = {{"workload.warm_up", "ten"}};
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("expected a time such as 60 s"));
}

TEST_CASE("load: the curve has each rate once, in order, and never calls a saturated point met") {
  const Files files;
  LoadRuns runs(small_load(files));
  const std::vector<LoadPoint> points =
      load_curve(runs, {}, std::vector<std::vector<double>>(2, {1e4, 1, 30, 1, 300}), {});
  REQUIRE(points.size() == 8);
  std::set<LoadVerdict> met;
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(points[i].system == i / 4);
    CHECK(points[i].rate == std::array<double, 4>{1, 30, 300, 1e4}[i % 4]);
    CHECK(points[i].samples.size() == 2);
    if (points[i].meets_level) met.insert(points[i].verdict);
  }
  CHECK(met == std::set{LoadVerdict::steady});
  CHECK(points[0].meets_level);        // one a second
  CHECK_FALSE(points[3].meets_level);  // 10,000 a second
}

TEST_CASE("load: the rate that is found meets the level, and a little more does not") {
  const Files files;
  LoadSettings settings = small_load(files);
  settings.level = parse_service_level("--slo", "e2e p95 < 60 ms");
  const LevelRule rule = GENERATE(LevelRule{}, LevelRule{0.8});
  LoadRuns runs(settings);
  const double tolerance = 0.05;
  const std::vector<HighestRate> found = find_highest_rates(runs, rule, tolerance, {});
  REQUIRE(found.size() == 2);
  for (const HighestRate& one : found) {
    REQUIRE(one.by_seed.size() == 2);
    CHECK(one.low() == std::min(one.by_seed[0], one.by_seed[1]));
    CHECK(one.high() == std::max(one.by_seed[0], one.by_seed[1]));
    CHECK(one.median() == one.low());
    for (std::size_t seed = 0; seed < 2; ++seed) {
      const double rate = one.by_seed[seed];
      REQUIRE(rate > 0);
      // Other runs than those of the search, whose last rate above was within the tolerance.
      const auto met = [&](double at) {
        return load_point(runs, rule, one.system, at, runs.run({{one.system, at, seed}}, {})).meets_level;
      };
      INFO("system " << one.system << " seed " << seed << " rate " << rate);
      CHECK(met(rate));
      CHECK_FALSE(met(rate * 1.3));
    }
  }
}

TEST_CASE("load: a level that no rate meets is found to be none") {
  const Files files;
  LoadSettings settings = small_load(files);
  settings.level = parse_service_level("--slo", "ttft mean < 1 ns");
  LoadRuns runs(settings);
  for (const HighestRate& one : find_highest_rates(runs, {}, 0.1, {})) {
    CHECK(one.by_seed == std::vector<double>{0, 0});
    CHECK(one.high() == 0);
  }
}

TEST_CASE("load: the search ends before a rate at which requests would come too late") {
  // A level that no rate meets and a system that is slow when all are there at once: halving its rate 24
  // times would have the last of the requests come after 1e12 s.
  const Files files;
  LoadSettings settings = small_load(files);
  settings.settings.emplace_back("overrides.system.host_overhead", "{per_pass: 4000 s, source: a test}");
  settings.level = parse_service_level("--slo", "ttft mean < 1 ns");
  LoadRuns runs(settings);
  for (const HighestRate& one : find_highest_rates(runs, {}, 0.1, {})) CHECK(one.high() == 0);
}

TEST_CASE("load: what cannot be asked is said") {
  Files files;
  LoadSettings settings = small_load(files);
  settings.only = {"poled"};
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("did you mean 'pooled'?"));
  settings.only = {};
  files.write("log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n0.5,2,2\n1,2,2\n");
  files.change("scenario.yaml", "  requests: 4\n  prompt_tokens: 3\n  output_tokens: 5\n",
               "  request_log: log.csv\n");
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("the scenario's requests are its log's"));
  settings.requests = 0;
  LoadRuns runs(settings);
  CHECK(runs.requests() == 3);
  // At four requests a second the log's three take half a second to come.
  CHECK(runs.run({{0, 4, 0}}, {}).front().backlogs.front().half_s == Approx(0.25));
  files.write("log.csv", "arrival_s,prompt_tokens,output_tokens\n0,3,4\n0,2,2\n");
  CHECK_THROWS_WITH(LoadRuns(settings), Contains("all come at the same moment"));
}

}  // namespace moelab::load_test
