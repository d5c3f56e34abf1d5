// Serving against queueing theory, where a formula holds: first come, first served, one request at a time, or
// as many as wait, up to a batch.
//
//   Pollaczek-Khinchine (M/G/1):  mean waiting = lambda E[S^2] / (2 (1 - rho)),  rho = lambda E[S]
//   Lindley (1952):               W' = max(0, W + S - A),  A the gap to the next arrival
//
// The mean of n waiting times of M/M/1 has, for large n, the variance v / n with
//   v = rho (2 + 5 rho - 4 rho^2 + rho^3) / (mu^2 (1 - rho)^4)   (Daley 1968)
// That of M/G/1 is below it where the service time's moments are below those of exponential service: E[S^k]
// <= k! E[S]^k.
//
// Batch service, as Bailey (1954) has it, of a server that waits for a request when there is none: a step
// takes the requests that wait, B at most, and lasts D(b) for b of them. The queue X at the ends of steps is
// a Markov chain: X' = max(0, X - B) + Poisson(lambda D(min(X, B))), from X = 0 as from 1 after an arrival.
// Between two ends the queue's area is max(0, X - B) D + lambda D^2 / 2; over the time that the chain spends
// there it is the mean queue, and by Little's law that over lambda the mean waiting. With no limit to a batch
// and one D the chain's states are independent, and waiting is
//   lambda D^2 / (2 (lambda D + exp(-lambda D))).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/results/request_latencies.hpp"
#include "sim/results/statistics.hpp"
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

/// How long a step of 1, 2, ... requests takes; beyond them as the last.
using StepTimes = std::vector<double>;

double step_of(const StepTimes& steps, std::size_t requests) {
  return steps[std::min(requests, steps.size()) - 1];
}

/// The mean waiting of batch service, of the chain above, with Poisson arrivals at `rate` a second.
double batch_waiting(const StepTimes& steps, double rate, std::size_t batch) {
  constexpr std::size_t kStates = 300;  // queues beyond have no share that a double shows, at the rates below
  const auto taken = [&](std::size_t x) { return std::clamp<std::size_t>(x, 1, batch); };
  std::vector<double> share(kStates, 1.0 / kStates), next(kStates);
  for (double change = 1; change > 1e-13;) {
    std::ranges::fill(next, 0);
    for (std::size_t x = 0; x < kStates; ++x) {
      const double mean = rate * step_of(steps, taken(x));
      double probability = std::exp(-mean);
      for (std::size_t to = x - std::min(x, batch), k = 0; to < kStates; ++to) {
        next[to] += share[x] * probability;
        probability *= mean / static_cast<double>(++k);
      }
    }
    change = 0;
    for (std::size_t x = 0; x < kStates; ++x) change += std::abs(next[x] - share[x]);
    std::swap(share, next);
  }
  double area = 0, time = 0;
  for (std::size_t x = 0; x < kStates; ++x) {
    const double step = step_of(steps, taken(x));
    const auto left = static_cast<double>(x - std::min(x, batch));
    area += share[x] * (left * step + rate * step * step / 2);
    time += share[x] * (step + (x == 0 ? 1 / rate : 0));
  }
  return area / time / rate;
}

/// A server of up to `batch` requests a step, each of which asks for one token.
RunResult batch_run(std::size_t batch, const std::vector<RequestRecord>& log) {
  SmallRun run = one_server();
  run.scenario.workload.batch = static_cast<std::uint32_t>(batch);
  run.scenario.workload.request_log = "made up";
  run.scenario.workload.log = log;
  return run.run();
}

StepTimes step_times(std::size_t batch) {
  StepTimes steps;
  for (std::size_t requests = 1; requests <= batch; ++requests) {
    const RunResult r = batch_run(batch, std::vector<RequestRecord>(requests, {0, 5, 1}));
    steps.push_back(r.metrics.end_to_end_s.front());
    for (const double end : r.metrics.end_to_end_s) REQUIRE(end == Approx(steps.back()).epsilon(1e-12));
  }
  return steps;
}

/// Each step takes those that wait when it begins, `batch` at most: what each request waits is held against
/// that. Returns the mean of what they wait.
double check_batches(const RunResult& r, const StepTimes& steps, std::size_t batch) {
  const std::vector<RequestTimes>& requests = r.metrics.requests;
  double free_s = 0, waits = 0;
  for (std::size_t first = 0; first < requests.size();) {
    const double begins = std::max(free_s, requests[first].arrival_s);
    std::size_t end = first;
    for (; end < requests.size() && end - first < batch && requests[end].arrival_s <= begins; ++end) {
      const double wait = begins - requests[end].arrival_s;
      CHECK(latency_of(requests[end], Latency::queueing) == Approx(wait).epsilon(1e-6).margin(1e-9));
      waits += wait;
    }
    free_s = begins + step_of(steps, end - first);
    first = end;
  }
  return waits / static_cast<double>(requests.size());
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

TEST_CASE("queueing: the chain of batch service has what closed formulas have") {
  const double rate = GENERATE(0.2, 0.5, 0.8), step = 1;
  CHECK(batch_waiting({step}, rate, 1) == Approx(rate * step * step / (2 * (1 - rate * step))).epsilon(1e-9));
  const double often = 5 * rate;
  CHECK(batch_waiting({step}, often, 1000) ==
        Approx(often * step * step / (2 * (often * step + std::exp(-often * step)))).epsilon(1e-9));
}

TEST_CASE("queueing: requests that share steps wait as with batch service") {
  const std::size_t batch = GENERATE(2u, 4u, 16u);
  const double load = GENERATE(0.4, 0.7);
  const StepTimes steps = step_times(batch);
  REQUIRE(steps.back() > steps.front());
  const double rate = load * static_cast<double>(batch) / steps.back();
  std::vector<double> means;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    means.push_back(
        check_batches(batch_run(batch, drawn({{1, 1.0}}, rate, random_runs(2000u), seed)), steps, batch));
  // Runs are independent: their spread says how far their mean may be off.
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size());
  const double error = standard_deviation(means) / std::sqrt(static_cast<double>(means.size() - 1));
  const double expected = batch_waiting(steps, rate, batch);
  INFO("batch " << batch << ", load " << load << ": " << mean << " against " << expected << " +- " << error);
  CHECK(std::abs(mean - expected) < 4 * error);
}

}  // namespace moelab::queueing_test
