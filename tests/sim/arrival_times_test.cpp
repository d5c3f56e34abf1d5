// When requests come: gaps against the distributions that they are drawn from, and logs at another pace.
#include "sim/serving/arrival_times.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/serving/served_request.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::arrival_times_test {

using Process = ArrivalsConfig::Process;

namespace {

/// Gaps times the rate: of mean 1.
std::vector<double> gaps_of(const ArrivalsConfig& config, double rate, std::size_t count) {
  ArrivalTimes arrivals(config, rate, 11);
  std::vector<double> gaps;
  for (double before = 0; gaps.size() < count;) {
    const double now = arrivals.next();
    REQUIRE(now >= before);
    gaps.push_back(rate * (now - before));
    before = now;
  }
  return gaps;
}

/// The largest distance between the distribution of a sample and F.
template <class Distribution>
double kolmogorov_distance(std::vector<double> sample, const Distribution& F) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double most = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double at = F(sample[i]), place = static_cast<double>(i);
    most = std::max({most, at - place / n, (place + 1) / n - at});
  }
  return most;
}

}  // namespace

TEST_CASE("arrivals: gaps have the distribution of their process") {
  const std::size_t count = moelab::test::random_runs(40000u);
  const double bound = 2.23 / std::sqrt(count);  // of Kolmogorov's distance: 1 in 10,000 is beyond
  const auto distance = [&](const ArrivalsConfig& config, const auto& F) {
    return kolmogorov_distance(gaps_of(config, 3, count), F);
  };
  const auto exponential = [](double x) { return 1 - std::exp(-x); };
  CHECK(distance({}, exponential) < bound);
  CHECK(distance({Process::gamma, 1}, exponential) < bound);
  // Gamma of shape 1/2 and mean 1 is a squared normal number; of shape 2 the sum of two exponential ones.
  CHECK(distance({Process::gamma, 0.5}, [](double x) { return std::erf(std::sqrt(x / 2)); }) < bound);
  CHECK(distance({Process::gamma, 2}, [](double x) { return 1 - std::exp(-2 * x) * (1 + 2 * x); }) < bound);
  CHECK(distance({Process::gamma, 0.5}, exponential) > bound);
}

TEST_CASE("arrivals: a burstiness is one over the squared coefficient of variation") {
  for (const double burstiness : {0.1, 0.7, 1.0, 4.0, 50.0}) {
    INFO("burstiness " << burstiness);
    const std::size_t count = moelab::test::random_runs(40000u);
    const std::vector<double> gaps = gaps_of({Process::gamma, burstiness}, 0.25, count);
    double sum = 0, squares = 0;
    for (const double gap : gaps) sum += gap;
    for (const double gap : gaps) squares += (gap - 1) * (gap - 1);
    const auto n = static_cast<double>(count);
    const double variance = 1 / burstiness, kurtosis = 6 / burstiness;  // excess
    CHECK(std::abs(sum / n - 1) < 4.5 * std::sqrt(variance / n));
    CHECK(std::abs(squares / n - variance) < 4.5 * variance * std::sqrt((2 + kurtosis) / n));
  }
}

TEST_CASE("arrivals: fixed intervals are all the same") {
  ArrivalTimes arrivals({Process::fixed, 1}, 8, 1);
  for (int i = 1; i <= 100; ++i) CHECK(arrivals.next() == i / 8.0);
}

TEST_CASE("arrivals: a rate scales the same arrivals") {
  for (const ArrivalsConfig& config : {ArrivalsConfig(), ArrivalsConfig{Process::gamma, 0.3}}) {
    ArrivalTimes slow(config, 1, 5), fast(config, 16, 5);
    for (int i = 0; i < 100; ++i) CHECK(slow.next() / 16 == Approx(fast.next()).epsilon(1e-12));
  }
}

// The integral of a rate that rises from a to b in T, summed by trapezoids, which are exact for it.
TEST_CASE("arrivals: on a ramp as many come as the rate adds up to") {
  for (const auto& [from, to] : {std::pair(1.0, 9.0), std::pair(7.0, 0.5), std::pair(3.0, 3.0)}) {
    INFO("from " << from << " to " << to);
    const ArrivalsConfig::Ramp ramp{.from = from, .to = to, .over_s = 40};
    const auto rate = [&](double t) {
      return t >= 40 ? ramp.to : ramp.from + (ramp.to - ramp.from) * t / 40;
    };
    ArrivalTimes arrivals({.process = Process::fixed, .ramp = ramp}, 1, 1);
    double before = 0, sum = 0;
    for (int i = 1; i <= 400; ++i) {
      const double now = arrivals.next();
      if (before < 40 && now > 40) {
        sum += (rate(before) + rate(40)) / 2 * (40 - before);
        before = 40;
      }
      sum += (rate(before) + rate(now)) / 2 * (now - before);
      CHECK(sum == Approx(i).epsilon(1e-9));
      before = now;
    }
    CHECK(before > 40);
  }
}

TEST_CASE("arrivals: a ramp lasts as long as requests come") {
  moelab::test::SmallRun run = moelab::test::paged_run(moelab::test::small_model({}), {"resident"});
  WorkloadConfig& w = run.scenario.workload;
  w.requests = 100;
  w.arrivals = {.process = Process::fixed, .ramp = ArrivalsConfig::Ramp{.from = 1, .to = 4}};
  w.arrivals_per_s = 2.5;
  const std::vector<ServedRequest> requests = served_requests(run.scenario, run.trace);
  CHECK(requests.back().arrival_s == Approx(40));  // 100 at a mean rate of 2.5
}

TEST_CASE("arrivals: a log's rate, and the log at another pace") {
  std::vector<RequestRecord> log = {{1, 5, 5}, {2, 5, 5}, {2, 5, 5}, {7, 5, 5}};
  CHECK(rate_of_log(log) == 0.5);  // three gaps in six seconds
  stretch_log(log, 0.25);
  CHECK(rate_of_log(log) == 2);
  CHECK(log.front().arrival_s == 0.25);
  CHECK(log.back().arrival_s == 1.75);
  CHECK(rate_of_log({{3, 1, 1}}) == 0);
  CHECK(rate_of_log({{3, 1, 1}, {3, 1, 1}}) == 0);
}

TEST_CASE("arrivals: a scenario's requests come by its process") {
  moelab::test::SmallRun run = moelab::test::paged_run(moelab::test::small_model({}), {"resident"});
  run.scenario.workload.arrivals_per_s = 100;
  run.scenario.workload.arrivals = {Process::fixed, 1};
  const std::vector<ServedRequest> requests = served_requests(run.scenario, run.trace);
  REQUIRE(requests.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(requests[i].arrival_s == static_cast<double>(i + 1) / 100);
}

}  // namespace moelab::arrival_times_test
