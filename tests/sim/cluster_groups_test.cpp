// Clusters of many machines of one profile: `count`, the names that scenarios know them by, and what is wrong
// with them said with its file and line.
#include <catch2/catch.hpp>
#include <numeric>

#include "models/json.hpp"
#include "sim/results/result_json.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::cluster_groups_test {

using namespace moelab::test;

namespace {

/// What `moelab calibrate --stand-in-gpu` finds: the CPU computes, and slows down by what it does at once.
const std::string kCpuWork = R"(  recover: {points: [[1000, 4 us]], source: test}
  peak: {value: 2 GFLOP/s, source: test}
  bandwidth: {value: 500 MB/s, source: test}
  dense_launch: {value: 1 us, source: test}
  sharing: {value: [1, 1.25, 1.5], source: test}
ssd:)";
const std::string kPlayedGpu = R"(gpu:
  stand_in: true
  memory: {value: 3 MB, source: test}
  reserve: {value: 0 B, source: test}
  link:
    to_device: {latency: 3 us, rate: 400 MB/s, source: test}
    to_host: {latency: 3 us, rate: 400 MB/s, source: test}
)";

std::string replaced(std::string text, const std::string& was, const std::string& becomes) {
  const std::size_t at = text.find(was);
  REQUIRE(at != std::string::npos);
  return text.replace(at, was.size(), becomes);
}

/// The small device whose CPU computes; `gpu`: its section, or none.
std::string cpu_device_text(const std::string& gpu) {
  return replaced(discrete_device_text(gpu), "ssd:", kCpuWork);
}

std::string cluster_text(const std::string& servers) {
  return "name: many\ntitle: Many machines\nsources:\n  test: {kind: measured, text: a test}\nservers:\n" +
         servers +
         "network:\n  bandwidth: {value: 1 MB/s, source: test}\n  latency: {value: 10 us, source: test}\n";
}

const std::string kManyScenario = R"(name: many-machines
model: tiny.yaml
cluster: cluster.yaml
budget: 300 kB
workload:
  tasks:
    - {name: code, prompt_tokens: [3, 5], output_tokens: 2}
    - {name: talk, prompt_tokens: 4, output_tokens: 3}
  servers:
    - {tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}
systems: [prism, prism-static, uniform, redundance, smartmoe, eplb, naive-collaboration,
          moe-infinity-edge, moe-infinity-edge-lb]
)";

class ManyFiles : public Files {
 public:
  ManyFiles() {
    write("played.yaml", cpu_device_text(kPlayedGpu));
    write("cpu.yaml", cpu_device_text(""));
    write("discrete.yaml", discrete_device_text(kDiscreteGpu));
    write("cluster.yaml", cluster_text("  - {name: box, device: played.yaml, count: 64}\n"));
    write("scenario.yaml", kManyScenario);
  }
  /// Every server's requests.
  std::vector<std::uint64_t> requests() const {
    const Scenario s = load();
    std::vector<std::uint64_t> all;
    for (const ServerLoad& load : s.cluster->loads)
      all.push_back(std::accumulate(load.phases.begin(), load.phases.end(), std::uint64_t{0},
                                    [](std::uint64_t sum, const LoadPhase& p) { return sum + p.requests; }));
    return all;
  }
};

std::vector<RunResult> run_all(const Scenario& s) {
  const RoutingTrace trace = scenario_trace(s);
  check_scenario(s, trace);
  std::vector<RunResult> results;
  for (const SystemConfig& system : s.systems) results.push_back(run_system(s, system, trace, {}));
  return results;
}

/// Results without what was put in.
nlohmann::ordered_json outcomes(const Scenario& s) {
  nlohmann::ordered_json all = nlohmann::ordered_json::parse(results_json(run_all(s)));
  for (auto& one : all) {
    REQUIRE(one.contains("inputs"));
    one.erase("inputs");
  }
  return all;
}

/// The problem that a change makes, on the line of the change.
void check_said(const std::string& file, const std::string& was, const std::string& becomes,
                const std::string& fragment) {
  ManyFiles files;
  const int line = files.change(file, was, becomes);
  const std::vector<Problem> problems = files.problems();
  INFO(becomes << "\n" << all_of(problems));
  CHECK(says(problems, files.path(file), line, fragment));
  CHECK(problems.size() == 1);
}

}  // namespace

TEST_CASE("many machines: 64 of any kind serve under every system that knows clusters") {
  for (const std::string device : {"played.yaml", "device.yaml", "cpu.yaml", "discrete.yaml"}) {
    ManyFiles files;
    files.change("cluster.yaml", "played.yaml", device);
    const Scenario s = files.load();
    REQUIRE(s.cluster->profile.servers.size() == 64);
    CHECK(s.cluster->profile.servers.front().name == "box-1");
    CHECK(s.cluster->profile.servers.back().name == "box-64");
    const std::vector<RunResult> results = run_all(s);
    REQUIRE(results.size() == 9);
    for (const RunResult& r : results) {
      INFO(device << ", " << r.system);
      REQUIRE(r.cluster.servers.size() == 64);
      std::uint64_t answered = 0;
      for (const ServerResult& server : r.cluster.servers) answered += server.requests;
      CHECK(answered == 128);
      CHECK(r.metrics.end_to_end_s.size() == 128);
      CHECK(r.metrics.tokens >= 2 * 128);
    }
  }
}

TEST_CASE("many machines: a mixed cluster is read, each server with its own device") {
  ManyFiles files;
  files.write("cluster.yaml", cluster_text("  - {name: board, device: device.yaml, count: 3}\n"
                                           "  - {name: box, device: played.yaml, count: 2}\n"
                                           "  - {name: old, device: cpu.yaml}\n"
                                           "  - {name: big, device: discrete.yaml, gpus: 2}\n"));
  const Scenario s = files.load();
  const ClusterProfile& c = s.cluster->profile;
  REQUIRE(c.servers.size() == 7);
  CHECK(!c.device(0).is_discrete());
  CHECK(c.device(3).has_stand_in());
  CHECK(!c.device(5).gpu);
  CHECK(c.servers[6].gpus == 2);
  for (const RunResult& r : run_all(s)) {
    INFO(r.system);
    CHECK(r.metrics.end_to_end_s.size() == 14);
  }
}

TEST_CASE("many machines: a count of servers is as many written out") {
  ManyFiles counted, written;
  for (const std::string device : {"played.yaml", "device.yaml", "cpu.yaml"}) {
    counted.write("cluster.yaml", cluster_text("  - {name: first, device: discrete.yaml}\n"
                                               "  - {name: box, device: " +
                                               device + ", count: 3, out: {value: 2 MB/s, source: test}}\n"));
    std::string servers = "  - {name: first, device: discrete.yaml}\n";
    for (const std::string number : {"1", "2", "3"})
      servers +=
          "  - {name: box-" + number + ", device: " + device + ", out: {value: 2 MB/s, source: test}}\n";
    written.write("cluster.yaml", cluster_text(servers));
    nlohmann::ordered_json a = outcomes(counted.load()), b = outcomes(written.load());
    // The provenance names each number of the file: three times what count says once.
    for (auto* all : {&a, &b})
      for (auto& one : *all) {
        REQUIRE(one.contains("provenance"));
        one.erase("provenance");
      }
    CHECK(a.dump() == b.dump());
  }
}

TEST_CASE("many machines: users are of a server, of a group, or go by the order of servers") {
  const std::string one = "    - {tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}\n";
  const auto entry = [](const std::string& server, int requests) {
    return "    - {server: " + server + ", tasks: {code: 1}, requests: " + std::to_string(requests) + "}\n";
  };
  ManyFiles files;
  files.write("cluster.yaml", cluster_text("  - {name: box, device: played.yaml, count: 3}\n"
                                           "  - {name: big, device: discrete.yaml}\n"));
  CHECK(files.requests() == std::vector<std::uint64_t>{2, 2, 2, 2});
  files.change("scenario.yaml", one, entry("box", 5) + entry("big", 7));
  CHECK(files.requests() == std::vector<std::uint64_t>{5, 5, 5, 7});
  // A server's own entry goes before its group's, wherever it stands; who is not named has no users.
  files.write("scenario.yaml", replaced(kManyScenario, one, entry("box-2", 9) + entry("box", 5)));
  CHECK(files.requests() == std::vector<std::uint64_t>{5, 9, 5, 0});
  files.write("scenario.yaml", replaced(kManyScenario, one, entry("box", 5) + entry("box-3", 1)));
  CHECK(files.requests() == std::vector<std::uint64_t>{5, 5, 1, 0});
}

TEST_CASE("many machines: users listed by place are of every server or of each") {
  const std::string one = "    - {tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}\n";
  const auto list = [&](std::size_t entries, ManyFiles& files) {
    files.write("cluster.yaml", cluster_text("  - {name: box, device: played.yaml, count: 4}\n"));
    std::string users;
    for (std::size_t i = 0; i < entries; ++i)
      users += "    - {tasks: {code: 1}, requests: " + std::to_string(i + 1) + "}\n";
    files.write("scenario.yaml", replaced(kManyScenario, one, users));
  };
  ManyFiles one_entry, each;
  list(1, one_entry);
  list(4, each);
  CHECK(one_entry.requests() == std::vector<std::uint64_t>{1, 1, 1, 1});
  CHECK(each.requests() == std::vector<std::uint64_t>{1, 2, 3, 4});
  for (const std::size_t entries : {2, 3, 5}) {
    ManyFiles files;
    list(entries, files);
    const std::vector<Problem> problems = files.problems();
    INFO(all_of(problems));
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().what.find("users of " + std::to_string(entries) +
                                     " servers are listed, cluster 'many' has 4: expected one entry, of the "
                                     "users of each server, or 4, or entries that name their servers "
                                     "({server: box-1, ...})") != std::string::npos);
  }
}

TEST_CASE("many machines: what happens to a group happens to each of its servers") {
  ManyFiles files;
  files.write("cluster.yaml", cluster_text("  - {name: box, device: played.yaml, count: 3}\n"
                                           "  - {name: big, device: discrete.yaml}\n"));
  files.change("scenario.yaml", "systems:",
               "faults:\n  events:\n    - {at: 2 ms, event: bandwidth, server: box, bandwidth: 3 MB/s}\n"
               "    - {at: 1 ms, event: leaves, server: box-2}\nsystems:");
  const std::vector<FaultEvent> faults = files.load().cluster->faults;
  REQUIRE(faults.size() == 4);
  CHECK(faults[0].server == 1);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(faults[i].server == i - 1);
    CHECK(faults[i].bandwidth == BytesPerSecond(3e6));
  }
}

TEST_CASE("many machines: a log of requests is held by the document, whatever server it is of") {
  ManyFiles files;
  files.write("cluster.yaml", cluster_text("  - {name: box, device: played.yaml, count: 3}\n"));
  files.write("log.csv", "arrival_s,prompt_tokens,output_tokens\n0.5,3,2\n0.75,4,2\n");
  files.change("scenario.yaml", "    - {tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}\n",
               "    - {server: box-3, tasks: {code: 1}, request_log: log.csv}\n"
               "    - {server: box-1, tasks: {code: 1}, requests: 1}\n");
  const Scenario s = files.load();
  REQUIRE(s.cluster->loads[2].log.size() == 2);
  const Scenario again = scenario_of_document("elsewhere", s.document);
  CHECK(again.cluster->loads[2].log.size() == 2);
  CHECK(again.cluster->loads[0].log.empty());
  CHECK(again.cluster->loads[0].phases.size() == 1);
}

TEST_CASE("many machines: pools of a cache are planned for servers that serve alone") {
  ManyFiles files;
  files.change("scenario.yaml", "systems: [", "systems: [pooled.yaml, ");
  files.change("cluster.yaml", "played.yaml", "device.yaml");
  const RunResult r = run_all(files.load()).front();
  CHECK(r.metrics.end_to_end_s.size() == 128);
  std::uint64_t held = 0;
  for (const ServerResult& server : r.cluster.servers) held += server.experts;
  CHECK(held > 0);

  files.write("other.yaml", replaced(kDevice, "lz:", "zz:"));
  files.change("cluster.yaml", "device.yaml", "other.yaml");
  CHECK(all_of(files.problems()).find("codec 'lz'") != std::string::npos);
  files.change("cluster.yaml", "other.yaml", "discrete.yaml");  // planes come over links there
  const RunResult linked = run_all(files.load()).front();
  CHECK(linked.metrics.end_to_end_s.size() == 128);
  CHECK(linked.metrics.bytes[static_cast<std::size_t>(Tier::host)] > 0);
}

TEST_CASE("many machines: mistakes are named on their line with what was expected") {
  const std::string box = "{name: box, device: played.yaml, count: 64}";
  for (const char* const count : {"0", "-1", "16385", "99999999999999999999", "1.5", "many"})
    check_said("cluster.yaml", box, "{name: box, device: played.yaml, count: " + std::string(count) + "}",
               "servers.0.count");
  const std::string users = "{tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}";
  const std::string of = "tasks: {code: 1}, requests: 1}";
  check_said("scenario.yaml", users, "{server: boxx, " + of, "did you mean 'box'");
  check_said("scenario.yaml", users, "{server: box-65, " + of, "no server is named 'box-65'");
  check_said("scenario.yaml", users, "{server: [box], " + of, "server");
  check_said("scenario.yaml", "systems:",
             "faults: {events: [{at: 1 ms, event: leaves, server: boxx}]}\nsystems:", "did you mean 'box'");
  for (const std::string device : {"played.yaml", "device.yaml", "cpu.yaml"})
    check_said("cluster.yaml", box, "{name: box, device: " + device + ", count: 64, gpus: 2}",
               "expected 'count' for more such machines");
}

TEST_CASE("many machines: a name that two have is said where it comes again") {
  const std::string first = "  - {name: box, device: played.yaml, count: 3}\n";
  for (const std::string again : {"box-2", "box", "box-3, count: 1"}) {
    ManyFiles files;
    files.write("cluster.yaml", cluster_text(first + "  - {name: " + again + ", device: device.yaml}\n"));
    const std::vector<Problem> problems = files.problems();
    INFO(again << "\n" << all_of(problems));
    CHECK(says(problems, files.path("cluster.yaml"), 7,
               "two servers are named '" + again.substr(0, again.find(','))));
  }
  ManyFiles files;
  files.write("cluster.yaml", cluster_text("  - {name: box-2, device: device.yaml}\n" + first));
  CHECK(says(files.problems(), files.path("cluster.yaml"), 7, "two servers are named 'box-2'"));
}

TEST_CASE("many machines: users that are listed twice, and entries of which only some name a server") {
  const std::string users = "    - {tasks: {code: 3, talk: 1}, requests: 2, arrivals_per_s: 10}\n";
  const auto second = [&](const std::string& a, const std::string& b, const std::string& fragment) {
    ManyFiles files;
    const std::string rest = "tasks: {code: 1}, requests: 1}\n";
    const int line = files.change("scenario.yaml", users, "    - {" + a + rest + "    - {" + b + rest);
    const std::vector<Problem> problems = files.problems();
    INFO(all_of(problems));
    CHECK(says(problems, files.path("scenario.yaml"), line + 1, fragment));
    CHECK(problems.size() == 1);
  };
  second("server: box, ", "server: box, ", "users of 'box' are listed twice");
  second("server: box-1, ", "server: box-1, ", "users of 'box-1' are listed twice");
  second("server: box, ", "", "expected the server or the group of servers whose users these are");
}

}  // namespace moelab::cluster_groups_test
