// Requests on their way to servers that serve alone, against queues written out: each is with the server that
// had the fewest when it came, its own among equals.
#include "sim/cluster/redirector.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "tests/sim/small_systems.hpp"

namespace moelab::redirector_test {

using namespace moelab::test;

namespace {

using Request = Redirector::Request;

struct Queues {
  std::vector<std::deque<Request>> waiting, running;  // by server
  std::deque<Request> coming;
  std::uint64_t redirected = 0;
  std::vector<std::vector<double>> latencies;  // by the server of the user

  Queues(const std::vector<Request>& requests, std::size_t servers)
      : waiting(servers), running(servers), coming(requests.begin(), requests.end()), latencies(servers) {}

  void come(double now, bool least_loaded) {
    for (; !coming.empty() && coming.front().asks.arrival_s <= now; coming.pop_front()) {
      std::vector<std::size_t> load;
      for (std::size_t i = 0; i < waiting.size(); ++i) load.push_back(waiting[i].size() + running[i].size());
      const auto least = std::min_element(load.begin(), load.end());
      std::size_t to = coming.front().server;
      if (least_loaded && *least < load[to]) to = static_cast<std::size_t>(least - load.begin());
      redirected += to != coming.front().server ? 1 : 0;
      waiting[to].push_back(coming.front());
    }
  }
};

std::vector<Request> random_requests(Random& random, std::size_t servers) {
  std::vector<Request> requests;
  double at = 0;
  for (std::size_t i = from(random, 1, 30); i > 0; --i) {
    if (coin(random)) at += static_cast<double>(random.below(4));
    ServedRequest asks{.arrival_s = at, .prompt_tokens = 1, .output_tokens = 1};
    asks.first_row = requests.size();  // which tells them apart
    requests.push_back({random.below(servers), asks});
  }
  return requests;
}

/// A server takes its requests, or answers the one that runs longest.
void check_step(Random& random, double now, Redirector& redirector, bool least_loaded, Queues& queues) {
  const std::size_t server = random.below(queues.waiting.size());
  RequestSource& source = redirector.source(server);
  std::deque<Request>&waiting = queues.waiting[server], &running = queues.running[server];
  queues.come(now, least_loaded);
  if (!running.empty() && coin(random)) {
    const Request done = running.front();
    source.finished(static_cast<std::uint32_t>(done.asks.first_row), done.asks.arrival_s, now);
    running.pop_front();
    queues.latencies[done.server].push_back(now - done.asks.arrival_s);
  } else {
    const auto taken = source.take(now);
    REQUIRE(taken.size() == waiting.size());
    for (const RequestSource::Arrival& arrival : taken) {
      REQUIRE(arrival.number == waiting.front().asks.first_row);
      REQUIRE(arrival.request.arrival_s == waiting.front().asks.arrival_s);
      running.push_back(waiting.front());
      waiting.pop_front();
    }
  }
  const std::optional<double> next = source.next_time();
  REQUIRE(next.has_value() == !queues.coming.empty());
  if (next) REQUIRE(*next == queues.coming.front().asks.arrival_s);
}

}  // namespace

TEST_CASE("cluster: requests go where queues written out have them go") {
  const Redirection way = GENERATE(Redirection::none, Redirection::least_loaded);
  const bool least_loaded = way == Redirection::least_loaded;
  std::uint64_t redirected = 0, answered = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    const std::size_t servers = from(random, 1, 4);
    const std::vector<Request> requests = random_requests(random, servers);
    Redirector redirector(requests, servers, way);
    Queues queues(requests, servers);
    for (double now = 0; now < 60; now += static_cast<double>(random.below(2)))
      check_step(random, now, redirector, least_loaded, queues);
    CHECK(redirector.redirected() == queues.redirected);
    for (std::size_t server = 0; server < servers; ++server) {
      CHECK(redirector.latencies(server) == queues.latencies[server]);
      answered += queues.latencies[server].size();
    }
    redirected += queues.redirected;
  }
  CHECK((redirected > 100) == least_loaded);
  CHECK(answered > 1000);
}

}  // namespace moelab::redirector_test
