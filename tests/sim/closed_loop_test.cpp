// Users who think: against the machine-repairman model's exact solution, and the order of events.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/serving/request_source.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/paged_cases.hpp"
#include "traces/portable_math.hpp"

namespace moelab::closed_loop_test {

using namespace moelab::test;

namespace {

struct Served {
  double responses_s = 0, end_s = 0;
  std::size_t most_in_system = 0;
};

/// One server, first come, first served, with exponential service times of mean `service_s`.
Served serve_all(RequestSource& source, double service_s, std::uint64_t seed) {
  Served all;
  Random random(seed);
  std::vector<RequestSource::Arrival> waiting;
  for (double now = 0;;) {
    for (const RequestSource::Arrival& arrival : source.take(now)) waiting.push_back(arrival);
    all.most_in_system = std::max(all.most_in_system, waiting.size());
    if (waiting.empty()) {
      if (!source.next_time()) return all;
      now = *source.next_time();
      continue;
    }
    const RequestSource::Arrival first = waiting.front();
    waiting.erase(waiting.begin());
    now -= service_s * std::log(1 - random.uniform());
    all.responses_s += now - first.request.arrival_s;
    all.end_s = now;
    source.finished(first.number, first.request.arrival_s, now);
  }
}

/// Throughput of N users by mean value analysis (Reiser and Lavenberg 1980): R(n) = S (1 + Q(n - 1)),
/// X(n) = n / (R(n) + Z), Q(n) = X(n) R(n).
double throughput(std::uint32_t users, double service_s, double think_s) {
  double queue = 0, rate = 0;
  for (std::uint32_t n = 1; n <= users; ++n) {
    const double response = service_s * (1 + queue);
    rate = n / (response + think_s);
    queue = rate * response;
  }
  return rate;
}

std::vector<ServedRequest> requests_of(std::size_t count) {
  return std::vector<ServedRequest>(count, ServedRequest{.prompt_tokens = 1, .output_tokens = 1});
}

}  // namespace

// Throughput over k requests scatters by less than that of a renewal process of their service: where the
// server is busy all the time, 1 / sqrt(k) of it, and less where users think.
TEST_CASE("closed loop: the throughput is that of the machine-repairman model") {
  const std::size_t count = random_runs(20000u);
  const std::vector<ServedRequest> requests = requests_of(count);
  for (const auto& [users, think_s] :
       std::vector<std::pair<std::uint32_t, double>>{{1, 0}, {1, 3}, {4, 2}, {8, 20}, {16, 10}, {40, 10}}) {
    INFO(users << " users, think time " << think_s);
    ClosedLoopRequests source(requests, {.users = users, .think_s = think_s, .exponential = true}, 3);
    const Served all = serve_all(source, 1, 9);
    const double rate = static_cast<double>(count) / all.end_s, expected = throughput(users, 1, think_s);
    CHECK(rate == Approx(expected).epsilon(5 / std::sqrt(count) + 2.0 * users / static_cast<double>(count)));
    // The interactive response time law, N = X (R + Z).
    const double response = all.responses_s / static_cast<double>(count);
    CHECK(rate * (response + think_s) ==
          Approx(users).epsilon(5 / std::sqrt(count) + 4.0 * users / static_cast<double>(count)));
    CHECK(all.most_in_system <= users);
  }
}

TEST_CASE("closed loop: one user with a fixed think time sends think time after answer") {
  const std::vector<ServedRequest> requests = requests_of(5);
  ClosedLoopRequests source(requests, {.users = 1, .think_s = 2}, 1);
  double now = 0;
  for (std::uint32_t i = 0; i < 5; ++i) {
    REQUIRE(source.next_time() == now);
    const auto taken = source.take(now);
    REQUIRE(taken.size() == 1);
    CHECK(taken.front().number == i);
    CHECK(taken.front().request.arrival_s == now);
    CHECK(source.take(now + 100).empty());
    source.finished(i, now, now + 1);
    now += 3;
  }
  CHECK_FALSE(source.next_time());
  CHECK(source.take(1e9).empty());
}

// Request k beyond the first N is sent by the user who was answered as (k - N)-th, a think time later.
TEST_CASE("closed loop: in the simulator requests come a think time after answers") {
  for (std::uint64_t seed = 1; seed <= random_runs(60u); ++seed) {
    INFO("seed " << seed);
    SmallRun run = random_paged_run(seed, seed % 2 == 0);
    if (!can_run(run)) continue;
    Random random(seed);
    WorkloadConfig& w = run.scenario.workload;
    const std::size_t count = w.log.size();
    const auto users = static_cast<std::uint32_t>(1 + random.below(5));
    w.closed_loop = ClosedLoop{.users = users, .think_s = random.uniform() * 1e-2};
    const std::vector<RequestTimes> requests = run.run().metrics.requests;
    REQUIRE(requests.size() == count);
    std::vector<double> ends, arrivals(count);
    for (const RequestTimes& q : requests) {
      ends.push_back(q.end_s);
      arrivals[q.number] = q.arrival_s;
    }
    std::sort(ends.begin(), ends.end());
    for (std::size_t k = 0; k < count; ++k) {
      const double expected = k < users ? w.closed_loop->think_s * static_cast<double>(k) / users
                                        : ends[k - users] + w.closed_loop->think_s;
      CHECK(arrivals[k] == Approx(expected).epsilon(1e-12).margin(1e-15));
    }
  }
}

}  // namespace moelab::closed_loop_test
