// Serving against queueing theory, where a formula holds: one request at a time, first come, first served.
//
//   Pollaczek-Khinchine (M/G/1):  mean waiting = lambda E[S^2] / (2 (1 - rho)),  rho = lambda E[S]
//   Lindley (1952):               W' = max(0, W + S - A),  A the gap to the next arrival
//
// The mean of n waiting times of M/M/1 has, for large n, the variance v / n with
//   v = rho (2 + 5 rho - 4 rho^2 + rho^3) / (mu^2 (1 - rho)^4)   (Daley 1968)
// That of M/G/1 is below it where the service time's moments are below those of exponential service: E[S^k]
// <= k! E[S]^k.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "sim/results/request_latencies.hpp"
#include "sim/serving/arrival_times.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"

namespace moelab::queueing_test {

using namespace moelab::test;

namespace {

/// Serves requests one at a time, with resident weights and rows that all use the same experts.
SmallRun one_server() {
  SmallRun run = paged_run(small_model({}), {"resident"});
  run.scenario.workload.batch = 1;
  run.scenario.workload.prefilled = true;
  run.trace = steady_trace(run.scenario.model, {3, 12});
  return run;
}

/// How long a lone request takes.
double service_time(std::uint32_t output_tokens) {
  SmallRun run = one_server();
  run.scenario.workload.requests = 1;
  run.scenario.workload.output_tokens = output_tokens;
  const double seconds = run.run().metrics.end_to_end_s.front();
  REQUIRE(seconds > 0);
  return seconds;
}

/// Classes of requests by how many tokens they ask for, with their shares; each has a fixed service time.
using Mix = std::map<std::uint32_t, double>;

struct Moments {
  double first = 0, second = 0;
};

Moments moments_of(const Mix& mix) {
  std::array<double, 5> moment{};
  for (const auto& [tokens, share] : mix)
    for (std::size_t k = 1; k < moment.size(); ++k)
      moment[k] += share * std::pow(service_time(tokens), static_cast<double>(k));
  double exponential = 1;
  for (std::size_t k = 1; k < moment.size(); ++k) {
    exponential *= static_cast<double>(k) * moment[1];
    CHECK(moment[k] <= exponential * (1 + 1e-12));
  }
  return {moment[1], moment[2]};
}

/// A run's requests: Poisson arrivals, classes drawn by their shares.
std::vector<RequestRecord> drawn(const Mix& mix, double rate, std::size_t count, std::uint64_t seed) {
  ArrivalTimes arrivals({}, rate, seed);
  Random classes(seed + 77);
  std::vector<RequestRecord> log;
  while (log.size() < count) {
    double at = classes.uniform();
    auto of = mix.begin();
    while (at >= of->second && std::next(of) != mix.end()) at -= (of++)->second;
    log.push_back({arrivals.next(), 5, of->first});
  }
  return log;
}

/// Each request waits as Lindley's recursion says. Returns the sum of what they wait.
double check_waits(const std::vector<RequestTimes>& requests,
                   const std::map<std::uint32_t, double>& service) {
  double wait = 0, before = 0, sum = 0, last_service = 0;
  for (const RequestTimes& q : requests) {  // in the order of their ends, which is that of arrival here
    wait = std::max(0.0, wait + last_service - (q.arrival_s - before));
    CHECK(latency_of(q, Latency::queueing) == Approx(wait).epsilon(1e-6).margin(1e-9));
    sum += wait;
    before = q.arrival_s;
    last_service = service.at(q.output_tokens);
  }
  return sum;
}

void check_mean_wait(const Mix& mix, double rho) {
  const Moments s = moments_of(mix);
  const double rate = rho / s.first;
  std::map<std::uint32_t, double> service;
  for (const auto& [tokens, share] : mix) service[tokens] = service_time(tokens);
  const std::size_t runs = random_runs(20u), each = 2000;
  double waits = 0;
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    SmallRun run = one_server();
    run.scenario.workload.request_log = "made up";
    run.scenario.workload.log = drawn(mix, rate, each, seed);
    const RunResult r = run.run();
    REQUIRE(r.metrics.requests.size() == each);
    waits += check_waits(r.metrics.requests, service);
  }
  const double n = static_cast<double>(runs) * static_cast<double>(each);
  const double expected = rate * s.second / (2 * (1 - rho));
  const double variance =
      rho * (2 + 5 * rho - 4 * rho * rho + rho * rho * rho) * s.first * s.first / std::pow(1 - rho, 4);
  INFO("rho " << rho << ": " << waits / n << " against " << expected);
  CHECK(std::abs(waits / n - expected) < 3 * std::sqrt(variance / n));
}

}  // namespace

TEST_CASE("queueing: with one service time requests wait as in M/D/1") {
  const double rho = GENERATE(0.3, 0.5, 0.7);
  check_mean_wait({{4, 1.0}}, rho);
}

TEST_CASE("queueing: with service times of two classes requests wait as in M/G/1") {
  const double rho = GENERATE(0.3, 0.6);
  check_mean_wait({{2, 0.7}, {9, 0.3}}, rho);
}

TEST_CASE(
    "queueing: at fixed intervals longer than the service none waits, at shorter ones the queue grows") {
  const double service = service_time(6);
  for (const double rho : {0.9, 1.5}) {
    SmallRun run = one_server();
    run.scenario.workload.requests = 200;
    run.scenario.workload.output_tokens = 6;
    run.scenario.workload.arrivals_per_s = rho / service;
    run.scenario.workload.arrivals.process = ArrivalsConfig::Process::fixed;
    const RunResult r = run.run();
    REQUIRE(r.metrics.requests.size() == 200);
    for (std::size_t i = 0; i < 200; ++i) {
      const double waits = static_cast<double>(i) * service * std::max(0.0, 1 - 1 / rho);
      CHECK(latency_of(r.metrics.requests[i], Latency::queueing) == Approx(waits).epsilon(1e-6).margin(1e-9));
    }
  }
}

}  // namespace moelab::queueing_test
