// Load on a cluster: a rate is that of all its users, and one server that does not keep up is enough.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "sim/load/load_curve.hpp"
#include "sim/sweep/request_rate.hpp"

namespace moelab::load_cluster_test {
namespace {

using Catch::Contains;

/// Servers that serve their own users only, a request at a time.
LoadSettings alone(const std::string& users, std::uint64_t requests = 400) {
  LoadSettings settings;
  settings.scenario = "prism-mixtral-alone";
  settings.settings = {{"workload.servers", users}};
  settings.only = {"moe-infinity-edge"};
  settings.requests = requests;
  return settings;
}

std::string users_of(int server, double rate, const std::string& more = "requests: 100") {
  return "{server: server" + std::to_string(server) + ", tasks: {arithmetic: 1}, " + more +
         ", arrivals_per_s: " + std::to_string(rate) + "}";
}

double highest_rate(const LoadSettings& settings) {
  LoadRuns runs(settings);
  return find_highest_rates(runs, {}, 0.02, {}).front().median();
}

RequestTimes request(std::uint32_t server, double arrival, double started, double end) {
  RequestTimes q;
  q.server = server;
  q.arrival_s = arrival;
  q.started_s = started;
  q.end_s = end;
  return q;
}

}  // namespace

// Two servers, each with a request a second. The first takes 0.5 s for one, the second 1.25 s, so that it has
// answered 0.8 of them each second and the last of 1,000 waits for 250 s.
TEST_CASE("verdict: a cluster is saturated where one of its servers is, whatever the others have to spare") {
  std::vector<RequestTimes> requests;
  for (int i = 0; i < 1000; ++i) {
    requests.push_back(request(0, i, i, i + 0.5));
    requests.push_back(request(1, i, 1.25 * i, 1.25 * (i + 1)));
  }
  const std::vector<Backlog> servers = backlogs_of(requests);
  REQUIRE(servers.size() == 2);
  CHECK(servers[0].came == 500);
  CHECK(servers[0].least_wait_s == 0);
  CHECK(servers[1].came == 500);
  CHECK(servers[1].started == 400);               // one in 1.25 s, of the 499.5 s from 499.5 s to 999 s
  CHECK(servers[1].least_wait_s == Approx(125));  // of the first that came in the second half, at 500 s
  CHECK(verdict_of_servers({servers[0]}, 1) == LoadVerdict::steady);
  CHECK(verdict_of_servers(servers, {}) == LoadVerdict::saturated);
  // All of them together would not show it: some request of the first server never waits.
  CHECK(verdict_of(backlog_of(requests), 2) == LoadVerdict::steady);
  // Of a twelfth of all requests 360 of 400 are within two times 20, which may be chance; 350 are not.
  Backlog few = servers[1];
  few.came = 400;
  few.started = few.answered = 360;
  std::vector<Backlog> many(9, servers[0]);
  many.push_back(few);
  CHECK(verdict_of_servers(many, {}) == LoadVerdict::steady);
  many.back().started = many.back().answered = 350;
  CHECK(verdict_of_servers(many, {}) == LoadVerdict::saturated);
  // Two such servers of ten are more than a tenth.
  many.back().started = many.back().answered = 360;
  many.front() = many.back();
  CHECK(verdict_of_servers(many, {}) == LoadVerdict::saturated);
}

TEST_CASE("load on a cluster: users keep their shares of the rate, and requests theirs of a run's") {
  LoadSettings settings =
      alone("[" + users_of(1, 0.3, "requests: 60") + ", " + users_of(2, 0.1, "requests: 20") + "]");
  settings.requests = 400;
  const LoadRuns runs(settings);
  CHECK(runs.requests() == 400);
  const std::vector<ServerLoad>& loads = runs.scenario().cluster->loads;
  CHECK(loads[0].phases.front().requests == 300);
  CHECK(loads[1].phases.front().requests == 100);
  CHECK(loads[2].phases.empty());
  CHECK_FALSE(runs.offered(3));
  settings.requests = 0;
  CHECK(LoadRuns(settings).requests() == kLeastRequests);
  // As long as each other: else the one that ends first would not be judged.
  LoadSettings uneven =
      alone("[" + users_of(1, 1.0, "requests: 60") + ", " + users_of(2, 0.1, "requests: 60") + "]");
  uneven.requests = 440;
  const LoadRuns by_rate(uneven);
  CHECK(by_rate.scenario().cluster->loads[0].phases.front().requests == 400);
  CHECK(by_rate.scenario().cluster->loads[1].phases.front().requests == 40);
}

TEST_CASE("load on a cluster: servers alone promise together what the one with the most users does",
          "[long]") {
  // Servers 1 and 2 are alike. Seeds' requests differ.
  const double one = highest_rate(alone("[" + users_of(1, 0.1) + "]", 400));
  REQUIRE(one > 0);
  CHECK(highest_rate(alone("[" + users_of(1, 0.1) + ", " + users_of(2, 0.1) + "]", 800)) ==
        Approx(one * 2).epsilon(0.15));
  // Three quarters of the users at one of the two: 4 / 3 of what it can take.
  const std::string most = users_of(1, 0.3, "requests: 300"), others = users_of(2, 0.1);
  CHECK(highest_rate(alone("[" + most + ", " + others + "]", 530)) == Approx(one * 4 / 3).epsilon(0.15));
}

TEST_CASE("load on a cluster: what no rate changes is refused") {
  CHECK_THROWS_WITH(LoadRuns(alone("[{server: server2, tasks: {arithmetic: 1}, requests: 10}]")),
                    Contains("server 'server2' are there from the start") && Contains("arrivals_per_s"));
}

}  // namespace moelab::load_cluster_test
