// What is wrong with scenarios of clusters is said with its file, its line and what was expected.
#include <catch2/catch.hpp>

#include "sim/cluster/run_cluster.hpp"
#include "sim/scenario_trace.hpp"
#include "tests/sim/scenario_files.hpp"
#include "traces/counts_trace.hpp"

namespace moelab::cluster_scenario_test {

using namespace moelab::test;

namespace {

const std::string kCluster = R"(name: two
title: Two servers
sources:
  test: {kind: measured, text: a test}
servers:
  - {name: left, device: device.yaml}
  - {name: right, device: device.yaml, gpus: 2}
network:
  topology: star
  bandwidth: {value: 1 MB/s, source: test}
  latency: {value: 10 us, source: test}
)";
const std::string kPlaced = R"(name: placed
weights: placed
placement: {policy: prism}
migration: {every: 1 s}
)";
const std::string kClusterScenario = R"(name: tiny-scenario
model: tiny.yaml
cluster: cluster.yaml
budget: 300 kB
workload:
  tasks:
    - {name: code, prompt_tokens: [3, 5], output_tokens: 2}
    - {name: talk, prompt_tokens: 4, output_tokens: 3}
  servers:
    - {tasks: {code: 3, talk: 1}, requests: 4, arrivals_per_s: 10}
    - {tasks: {talk: 1}, requests: 2}
faults:
  events:
    - {at: 1 ms, event: leaves, server: right}
    - {at: 2 ms, event: returns, server: right}
systems:
  - placed.yaml
)";

/// The files above beside the model's and the device's.
class ClusterFiles : public Files {
 public:
  ClusterFiles() {
    write("device.yaml", discrete_device_text(kDiscreteGpu));
    write("cluster.yaml", kCluster);
    write("placed.yaml", kPlaced);
    write("scenario.yaml", kClusterScenario);
  }
};

/// What a change makes wrong, said with its place.
void check_problem(const std::string& file, const std::string& was, const std::string& becomes,
                   const std::string& says) {
  ClusterFiles files;
  files.change(file, was, becomes);
  const std::vector<Problem> problems = files.problems();
  INFO(becomes);
  REQUIRE(!problems.empty());
  const bool said = std::any_of(problems.begin(), problems.end(), [&](const Problem& p) {
    return p.what.find(says) != std::string::npos && p.line > 0;
  });
  INFO(to_string(problems.front()));
  CHECK(said);
}

}  // namespace

TEST_CASE("cluster scenario: one without a problem is read as it says") {
  const ClusterFiles files;
  REQUIRE(files.problems().empty());
  const Scenario s = files.load();
  const ClusterConfig& c = *s.cluster;
  REQUIRE(c.profile.servers.size() == 2);
  CHECK(c.profile.servers[1].gpus == 2);
  CHECK(c.profile.servers[0].out == BytesPerSecond(1e6));
  CHECK(c.profile.devices.size() == 1);
  CHECK(c.tasks[0].prompt.low == 3);
  CHECK(c.tasks[0].prompt.high == 5);
  CHECK(c.loads[0].phases[0].shares == std::vector<double>{0.75, 0.25});
  CHECK(c.loads[1].history == std::vector<double>{0, 1});
  CHECK(c.faults[1].kind == FaultEvent::Kind::returns);
  CHECK(s.systems[0].placed->migration->horizon == Seconds(1));  // as long as between decisions
}

TEST_CASE("cluster scenario: which costs a decision to migrate goes by") {
  ClusterFiles files;
  const auto migration = [&] { return *files.load().systems[0].placed->migration; };
  CHECK(migration().costs == MigrationConfig::Costs::since_start);
  CHECK(migration().computing_every == Seconds(0));
  files.change("placed.yaml", "every: 1 s", "every: 1 s, costs: since-change, computing_every: 30 s");
  CHECK(migration().costs == MigrationConfig::Costs::since_change);
  CHECK(migration().computing_every == Seconds(30));
}

TEST_CASE("cluster scenario: a server's own numbers are read, and say where they are from") {
  ClusterFiles files;
  files.change("cluster.yaml", "gpus: 2",
               "gpus: 2, out: {value: 2 MB/s, source: test}, budget: {value: 250 kB, source: test}");
  REQUIRE(files.problems().empty());
  const Scenario s = files.load();
  const ClusterProfile& c = s.cluster->profile;
  CHECK(c.servers[1].out == BytesPerSecond(2e6));
  CHECK(c.servers[1].in == BytesPerSecond(1e6));  // the network's
  CHECK(c.servers[1].budget == Bytes(250e3));
  CHECK(!c.servers[0].budget);
  for (const std::string name : {"right.out", "right.budget"})
    CHECK(std::any_of(c.provenance.begin(), c.provenance.end(),
                      [&](const std::string& line) { return line.find(name) != std::string::npos; }));
}

TEST_CASE("cluster scenario: mistakes are named with what was expected") {
  check_problem("cluster.yaml", "value: 1 MB/s", "value: 0 MB/s", "network.bandwidth");
  check_problem("cluster.yaml", "topology: star", "topology: ring", "star");
  check_problem("cluster.yaml", "name: right", "name: left", "two servers are named 'left'");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 0", "gpus");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 2, host: x", "platform");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 2, out: 2 MB/s", "servers.1.out");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 2, in: {value: 2 MB/s, source: tset}",
                "did you mean 'test'?");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 2, budget: {value: 0 B, source: test}", "servers.1.budget");
  check_problem("cluster.yaml", "device: device.yaml}", "device: nowhere.yaml}", "nowhere.yaml");
  check_problem("scenario.yaml", "code: 3", "cod: 3", "did you mean 'code'");
  check_problem("scenario.yaml", "server: right", "server: rigth", "no server is named 'rigth'");
  check_problem("scenario.yaml", "event: leaves", "event: explodes", "leaves");
  check_problem("scenario.yaml", "[3, 5]", "[5, 3]", "fewer than the least");
  check_problem("scenario.yaml", "[3, 5]", "[3]", "the least and the most");
  check_problem("scenario.yaml", "name: talk", "name: code", "task 'code' is listed twice");
  check_problem("scenario.yaml", "prompt_tokens: 4", "trace: a.safetensors",
                "'output_tokens' is the trace's to say");
  check_problem("scenario.yaml", "{code: 3, talk: 1}", "{code: 0}", "above 0");
  check_problem("scenario.yaml", "requests: 4", "requests: 0", "a phase or a server without any is left out");
  check_problem("scenario.yaml", "{code: 3, talk: 1}", "{}", "such as {code: 1}");
  check_problem("scenario.yaml", "{code: 3, talk: 1}", "{code: nan}", "code");
  check_problem("scenario.yaml", "arrivals_per_s: 10", "arrivals_per_s: 1e-10", "1e-9 a second");
  check_problem("scenario.yaml", "arrivals_per_s: 10", "arrivals_per_s: 1e308", "arrivals_per_s");
  check_problem("scenario.yaml", "at: 1 ms", "at: -1 ms", "faults.events.0.at");
  check_problem("scenario.yaml", "at: 1 ms", "at: nan s", "faults.events.0.at");
  check_problem("scenario.yaml", "at: 2 ms", "at: 1e300 s", "faults.events.1.at");
  check_problem("placed.yaml", "weights: placed", "weights: placed\ndetection: 1 ns", "detection");
  check_problem("placed.yaml", "every: 1 s", "every: 1 s, costs: since-chnage", "since-change");
  check_problem("placed.yaml", "every: 1 s", "every: 1 s, computing_every: 30", "computing_every");
  check_problem("placed.yaml", "every: 1 s", "every: 1 s, computing_every: 0 s", "computing_every");
  check_problem("scenario.yaml", "event: leaves", "bandwidth: 1e-300 B/s, event: bandwidth",
                "at least 1 B/s");
  check_problem("scenario.yaml", "faults:\n", "faults:\n  leaves_every: 1 ns\n  returns_after: 1 s\n",
                "leaves_every");
  check_problem("scenario.yaml", "faults:\n", "faults:\n  leaves_every: 1 s\n", "returns_after");
  check_problem("cluster.yaml", "value: 1 MB/s", "value: 1e-300 MB/s", "at least 1 B/s");
  check_problem("cluster.yaml", "value: 10 us", "value: nan us", "network.latency");
  check_problem("cluster.yaml", "gpus: 2", "gpus: 2, count: 1000000000", "16384");
  check_problem(
      "scenario.yaml", "requests: 4",
      "phases: [" +
          [] {
            std::string phases;
            for (int i = 0; i < 21; ++i) phases += "{requests: 1000000, tasks: {code: 1}}, ";
            return phases;
          }() +
          "]",
      "at most 20000000");
  check_problem("scenario.yaml", "arrivals_per_s: 10", "arrivals_per_s: -1", "arrivals_per_s");
  check_problem("scenario.yaml", "cluster: cluster.yaml", "device: device.yaml", "several servers");
  check_problem("placed.yaml", "policy: prism", "policy: prisma", "did you mean 'prism'");
  check_problem("placed.yaml", "policy: prism", "policy: prism, copies: 3", "has 2");
  check_problem("placed.yaml", "migration: {every: 1 s}", "execution: {policy: call-or-lode}",
                "call-or-load");
  check_problem("placed.yaml", "every: 1 s", "every: 0 s", "every");
  check_problem("placed.yaml", "every: 1 s", "every: 1 s, statistics: window", "window");
}

TEST_CASE("cluster scenario: memory that does not hold the experts is a named shortfall") {
  ClusterFiles files;
  // 2 layers of 4 experts of 3 x 32 x 48 weights in 2 bytes: 9,216 B each, 73,728 B in all.
  files.change("scenario.yaml", "budget: 300 kB", "budget: 40 kB");
  CHECK(files.problems().empty());  // others may fit
  const Scenario s = files.load();
  const std::string lacking = check_cluster_system(s, s.systems.front(), scenario_trace(s));
  INFO(lacking);
  CHECK((lacking.find("missing") != std::string::npos || lacking.find("too small") != std::string::npos));
}

TEST_CASE("cluster scenario: counts of another model are refused with both shapes") {
  ClusterFiles files;
  CountsDescription about;
  about.prompts = 1;
  about.layers = 3;
  about.experts = 4;
  about.domains = {"code"};
  write_counts_trace(CountsTrace(about, std::vector<std::uint64_t>(12, 1), {0}), files.path("counts.st"));
  files.change("scenario.yaml", "  tasks:\n", "  counts: counts.st\n  tasks:\n");
  const std::vector<Problem> problems = files.problems();
  REQUIRE(!problems.empty());
  INFO(to_string(problems.front()));
  CHECK(problems.front().what.find("3 layers") != std::string::npos);      // the counts'
  CHECK(problems.front().what.find("2 MoE layers") != std::string::npos);  // the model's
}

}  // namespace moelab::cluster_scenario_test
