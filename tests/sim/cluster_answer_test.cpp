// What is said of a cluster's requests that fail, and of the time that they wait for a server that is away.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "sim/results/cause_words.hpp"
#include "sim/results/cluster_table.hpp"
#include "sim/results/latency_causes.hpp"
#include "sim/results/text_report.hpp"
#include "sim/sweep/run_answer.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_answer_test {

using namespace moelab::test;

namespace {

Scenario scenario_of(const std::vector<std::string>& systems) {
  ModelShape shape;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "uniform");
  s.systems.resize(systems.size(), s.systems.front());
  for (std::size_t i = 0; i < systems.size(); ++i) s.systems[i].name = systems[i];
  return s;
}

/// Of which every answered request took so long.
RunResult result_of(const std::string& system, std::uint64_t answered, std::uint64_t failed, double seconds) {
  RunResult r;
  r.system = system;
  r.executor = "fast";
  r.cluster.servers.resize(1);
  r.cluster.servers.front().name = "server1";
  r.cluster.servers.front().requests = answered;
  r.cluster.servers.front().failed = failed;
  r.metrics.end_to_end_s.assign(answered, seconds);
  return r;
}

std::vector<std::string> names_of(const std::vector<TimedSystem>& systems) {
  std::vector<std::string> names;
  for (const TimedSystem& one : systems) names.push_back(one.system);
  return names;
}

RequestTimes request(std::uint32_t server, double arrival_s, double started_s, double end_s) {
  RequestTimes q;
  q.server = server;
  q.arrival_s = arrival_s;
  q.started_s = started_s;
  q.first_token_s = started_s;
  q.end_s = end_s;
  return q;
}

}  // namespace

TEST_CASE("cluster's answer: a system in which more requests fail is told first and never the fastest") {
  const std::vector<std::string> names = {"lossy", "slow", "slower"};
  const std::vector<RunResult> results = {result_of("lossy", 153, 447, 1), result_of("slow", 600, 0, 2),
                                          result_of("slower", 600, 0, 3)};
  const RunAnswer a = run_answer(scenario_of(names), results);
  CHECK(names_of(a.rivals) == std::vector<std::string>{"slow", "slower"});
  REQUIRE(a.unranked.size() == 1);
  CHECK(a.unranked.front().system == "lossy");
  CHECK(a.unranked.front().seconds == 1);
  CHECK(a.text.starts_with(
      "Of 600 requests 447 failed in lossy. slow is the fastest of 2 systems: 2.00 s a request, "));
  CHECK(
      a.text.find("lossy, in which more of them failed, is not ranked: 1.00 s a request that it answers.") !=
      std::string::npos);
  const nlohmann::json j = answer_json(a);
  CHECK(j["fastest"] == "slow");
  CHECK(j["unranked"][0]["system"] == "lossy");
  CHECK(j["requests"][0] ==
        nlohmann::json{{"system", "lossy"}, {"asked", 600}, {"failed", 447}, {"delayed", 0}});
}

TEST_CASE("cluster's answer: systems in which as many requests fail are ranked, and it is said") {
  const std::vector<RunResult> results = {result_of("a", 599, 1, 3), result_of("b", 599, 1, 2)};
  const RunAnswer a = run_answer(scenario_of({"a", "b"}), results);
  CHECK(names_of(a.rivals) == std::vector<std::string>{"b", "a"});
  CHECK(
      a.text.starts_with("Of 600 requests 1 failed in each of the 2 systems. b is the fastest of 2 systems"));
  const RunAnswer one = run_answer(scenario_of({"a"}), {result_of("a", 153, 447, 2)});
  CHECK(one.text.starts_with("Of 600 requests 447 failed in a. a takes 2.00 s a request that it answers."));
}

TEST_CASE("cluster's answer: a request that fails under a further seed counts, too") {
  const std::vector<RunResult> results = {result_of("a", 600, 0, 1), result_of("b", 600, 0, 2)};
  const RunAnswer a =
      run_answer(scenario_of({"a", "b"}), results,
                 {{{1, {600, 0, 0}}, {1, {600, 500, 0}}}, {{2, {600, 0, 0}}, {2, {600, 0, 0}}}});
  CHECK(names_of(a.rivals) == std::vector<std::string>{"b"});
  CHECK(a.text.starts_with("Of 1200 requests 500 failed in a, over 2 seeds. b takes 2.00 s a request"));
}

TEST_CASE(
    "cluster's answer: of systems that answer nothing it says that they were run and all requests fail") {
  const RunAnswer a = run_answer(scenario_of({"a"}), {result_of("a", 0, 600, 0)});
  CHECK(a.text == "Of 600 requests 600 failed in a.\n");
  CHECK(a.rivals.empty());
}

TEST_CASE("cluster: the heading says how many of the requests are answered") {
  const Scenario s = scenario_of({"a", "b"});
  const auto heading = [&](std::uint64_t a, std::uint64_t b) {
    return results_table(s, {result_of("a", a, 600 - a, 1), result_of("b", b, 600 - b, 1)}, {}, {}, {});
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(says(heading(153, 153), ", 153 of 600 request(s), "));
  CHECK(says(heading(153, 600), ", 153 to 600 of 600 request(s), "));
  CHECK(says(heading(600, 600), ", 600 request(s), "));
}

TEST_CASE(
    "cluster: what a migration saves and costs is said of what, and what a fault uncovers of which GPUs") {
  RunResult r = result_of("a", 1, 0, 1);
  MigrationRecord& m = r.cluster.migrations.emplace_back();
  m.at_s = 300;
  m.horizon_s = 300;
  m.saved_s = 0.56;
  m.cost_s = 0.13;
  r.cluster.faults = {
      {.at_s = 500, .server = "server1", .event = "leaves", .uncovered = 216, .recovered_s = 501.1}};
  CHECK(cluster_events({r}) ==
        "migrations and faults\n"
        "  300.0 s  a: a new placement would save 0.56 s of calls in 5 min and cost 0.13 s of loading: kept "
        "as it is\n"
        "  500.0 s  a: server1 leaves, 216 experts are nowhere, until 501.1 s\n");
  r.cluster.servers.front().loaded_experts = 3;  // its system loads what no GPU holds, fault or not
  CHECK(cluster_events({r}).find("216 experts are on no GPU and are loaded\n") != std::string::npos);
}

TEST_CASE("cluster: a request's latency is waiting for its server's return, the queue, and being served") {
  RunResult r = result_of("a", 4, 0, 1);
  r.cluster.servers.resize(2);
  r.cluster.servers[1].name = "server2";
  r.cluster.faults = {{10, "server2", "leaves"},
                      {12, "server1", "bandwidth"},
                      {30, "server2", "returns"},
                      {50, "server2", "leaves"}};
  r.metrics.wall_s = 60;
  r.metrics.requests = {request(0, 5, 7, 8),      // 2 in the queue, 1 served
                        request(1, 5, 33, 34),    // 20 away, 8 in the queue, 1 served
                        request(1, 20, 31, 33),   // 10 away, 1 in the queue, 2 served
                        request(1, 40, 40, 42),   // 2 served
                        request(1, 45, 46, -1)};  // lost
  r.metrics.stall_s[static_cast<std::size_t>(Cause::host)] = 30;
  r.metrics.stall_s[static_cast<std::size_t>(Cause::network)] = 10;
  const LatencySums sums = latency_sums(r);
  CHECK(sums.away_s == Approx(30));
  CHECK(sums.queued_s == Approx(11));
  CHECK(sums.served_s == Approx(6));
  std::map<std::string, double> causes;
  for (const auto& [cause, seconds] : latency_causes(r)) causes[cause] = seconds;
  CHECK(causes.size() == 4);
  CHECK(causes[kAwayCause] == Approx(30));
  CHECK(causes[kQueueCause] == Approx(11));
  CHECK(causes["host"] == Approx(4.5));
  CHECK(causes["network"] == Approx(1.5));
  const RunAnswer a = run_answer(scenario_of({"a"}), {r});
  REQUIRE(!a.causes.empty());
  CHECK(a.causes.front().first == kAwayCause);
  CHECK(a.causes.front().second == Approx(30.0 / 47));
  CHECK(
      a.text.find("What bounds a: waiting for a server that is away, 63.8 % of its time; then waiting in the "
                  "queue, 23.4 %.") != std::string::npos);
}

// Every instant of a simulated request is in one of the three, and waiting for a return in none that came
// later.
TEST_CASE("cluster: the causes of latencies add up to the latencies of a simulated run with an outage") {
  const Outage outage = outage_of_first_server();
  const RunResult r = run_cluster(outage.scenario);
  double latencies = 0, causes = 0, away = 0;
  for (const double seconds : r.metrics.end_to_end_s) latencies += seconds;
  for (const auto& [cause, seconds] : latency_causes(r)) causes += seconds;
  for (std::size_t i = 10; i < 25; ++i) away += outage.returns_s - outage.requests[i].arrival_s;
  CHECK(causes == Approx(latencies));
  CHECK(latency_sums(r).away_s == Approx(away));
}

}  // namespace moelab::cluster_answer_test
