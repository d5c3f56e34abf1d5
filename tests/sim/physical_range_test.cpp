// Whatever quantities within physical bounds a scenario's files give, it is refused with what is wrong, or
// runs to results that are numbers; and looking at a slow cluster costs no more than looking at a fast one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/json.hpp"
#include "models/physical_bounds.hpp"
#include "sim/results/result_json.hpp"
#include "sim/results/result_transfer.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::physical_range_test {

using namespace moelab::test;
using nlohmann::json;

namespace {

const std::string kCluster = R"(name: two
title: Two servers
sources:
  test: {kind: measured, text: a test}
servers:
  - {name: left, device: device.yaml, budget: {value: 400 kB, source: test}}
  - {name: right, device: device.yaml, gpus: 2, out: {value: 2 MB/s, source: test}}
network:
  topology: star
  bandwidth: {value: 1 MB/s, source: test}
  latency: {value: 10 us, source: test}
)";
const std::string kPlaced = R"(name: placed
weights: placed
placement: {policy: prism}
migration: {every: 1 s, horizon: 2 s}
host_overhead: {per_layer: 1 us, per_pass: 1 us, per_call: 1 us, source: a test}
)";
const std::string kClusterScenario = R"(name: tiny-scenario
model: tiny.yaml
cluster: cluster.yaml
budget: 300 kB
workload:
  tasks:
    - {name: code, prompt_tokens: [3, 5], output_tokens: 2}
  servers:
    - {tasks: {code: 1}, requests: 4, arrivals_per_s: 10}
    - {tasks: {code: 1}, requests: 2}
systems: [placed.yaml]
)";

/// The files of a scenario; which, by number: a GPU in shared memory, one with its own, a cluster.
class Machines : public Files {
 public:
  explicit Machines(std::uint64_t number) {
    if (number % 3 > 0) write("device.yaml", discrete_device_text(kDiscreteGpu));
    if (number % 3 < 2) return;
    write("cluster.yaml", kCluster);
    write("placed.yaml", kPlaced);
    write("scenario.yaml", kClusterScenario);
  }
  std::string read(const std::string& name) const { return read_bytes(path(name)); }
};
const std::vector<std::string> kFiles = {"device.yaml", "cluster.yaml", "placed.yaml", "scenario.yaml"};

/// Log-uniform within the bounds, one of their ends, or 0.
template <class Q>
std::string drawn(std::mt19937_64& random) {
  const PhysicalBounds bounds = physical_bounds(Q());
  const std::uint64_t kind = random() % 8;
  if (kind < 3) return to_exact_string(Q(kind == 0 ? bounds.least : kind == 1 ? bounds.most : 0));
  const double share = static_cast<double>(random() >> 11) * 0x1p-53;
  const double value = bounds.least * std::pow(bounds.most / bounds.least, share);
  return to_exact_string(Q(std::clamp(value, bounds.least, bounds.most)));
}
std::string drawn_like(const std::string& unit, std::mt19937_64& random) {
  if (unit.ends_with("FLOP/s")) return drawn<FlopsPerSecond>(random);
  if (unit.ends_with("B/s")) return drawn<BytesPerSecond>(random);
  return unit.ends_with("B") ? drawn<Bytes>(random) : drawn<Seconds>(random);
}

/// Every quantity in the text is drawn anew, or about one in `of`.
std::string redrawn(const std::string& text, std::uint64_t of, std::mt19937_64& random) {
  static const std::regex quantity(R"((\d+) ((?:[kMG]?(?:B|FLOP)(?:/s)?)|[num]?s)\b)");
  std::string out;
  auto rest = text.cbegin();
  for (std::smatch found; std::regex_search(rest, text.cend(), found, quantity);
       rest = found.suffix().first) {
    out += found.prefix();
    out += random() % of == 0 ? drawn_like(found[2], random) : found.str();
  }
  return out.append(rest, text.cend());
}

/// Calls visit(path without places in lists, value) for all that is no list or map.
template <class Visit>
void walk(const json& node, const std::string& path, const Visit& visit) {
  if (node.is_object())
    for (const auto& [key, value] : node.items()) walk(value, path + "/" + key, visit);
  else if (node.is_array())
    for (const json& value : node) walk(value, path, visit);
  else
    visit(path, node);
}

/// All that is null in results: JSON has no other way to write what is not finite.
std::set<std::string> nulls_of(const json& results) {
  std::set<std::string> paths;
  walk(results, "", [&](const std::string& path, const json& value) {
    if (value.is_null()) paths.insert(path);
  });
  return paths;
}

std::vector<RunResult> run_all(const Scenario& s, ExecutorKind executor) {
  std::vector<RunResult> results;
  const RoutingTrace trace = scenario_trace(s);
  RunOptions options;
  options.executor = executor;
  for (const SystemConfig& system : s.systems) {
    const auto run = [&] { return run_system(s, system, trace, options); };
    results.push_back(executor == ExecutorKind::fast
                          ? run()
                          : unpack_result(engine::run_in_simgrid_child([&] { return pack_result(run()); })));
    check_fits(results.back());
  }
  return results;
}

/// "" for a run to results, "refused" where it was said why not; else what is wrong with it.
std::string outcome(const Machines& files, ExecutorKind executor, const std::set<std::string>& nulls) {
  try {
    const Scenario s = files.load();
    const json results = json::parse(results_json(run_all(s, executor)));
    std::string wrong;
    walk(results, "", [&](const std::string& path, const json& value) {
      if (value.is_null() && !nulls.contains(path)) wrong += path + " is null; ";
      if (value.is_number() && !(value.get<double>() >= 0)) wrong += path + " is " + value.dump() + "; ";
    });
    return wrong;
  } catch (const InputError& error) {
    return error.problems().front().what.empty() ? "refused without a word" : "refused";
  }
}

/// Experts of two servers change places over a network of that latency, of which the scheduler's interval is
/// a multiple.
Scenario exchanging(double latency_s) {
  ModelShape shape;
  shape.experts = 16;
  Scenario s = cluster_scenario(small_model(shape), {1, 1}, "prism");
  s.workload.skew = 2;
  ClusterConfig& c = *s.cluster;
  c.profile.network.latency = Seconds(latency_s);
  c.own_popularity = 1;
  c.tasks = {{"a", {20, 30}, {2, 4}, "a"}, {"b", {20, 30}, {2, 4}, "b"}};
  for (std::size_t i = 0; i < 2; ++i) {
    c.loads[i].phases = {{60, {i == 0 ? 1.0 : 0.0, i == 0 ? 0.0 : 1.0}}};
    c.loads[i].history = {i == 0 ? 0.0 : 1.0, i == 0 ? 1.0 : 0.0};
    give_experts(s, i, 20);  // of 32
  }
  MigrationConfig& m = placed_of(s).migration.emplace();
  m.load_from = MigrationConfig::From::network;
  m.every = Seconds(50 * latency_s);
  m.horizon = Seconds(1e6 * latency_s);
  return s;
}

}  // namespace

TEST_CASE("physical range: what is within bounds is refused by name or runs to numbers") {
  std::uint64_t ran = 0, refused = 0;
  for (const ExecutorKind executor : {ExecutorKind::fast, ExecutorKind::simgrid}) {
    const std::uint64_t cases = executor == ExecutorKind::fast ? random_runs(600u) : random_runs(240u, 12u);
    for (std::uint64_t seed = 0; seed < cases; ++seed) {
      std::mt19937_64 random(seed);
      Machines files(seed);
      const std::set<std::string> nulls =
          nulls_of(json::parse(results_json(run_all(files.load(), ExecutorKind::fast))));
      const std::uint64_t of = seed % 2 == 0 ? 6 : 1 + random() % 20;
      std::string all;
      for (const std::string& name : kFiles) {
        if (!std::filesystem::exists(files.path(name))) continue;
        files.write(name, redrawn(files.read(name), of, random));
        all += files.read(name);
      }
      const std::string found = outcome(files, executor, nulls);
      INFO("seed " << seed << (executor == ExecutorKind::fast ? " fast\n" : " simgrid\n") << all);
      if (!found.empty() && found != "refused") FAIL_CHECK(found);
      ++(found.empty() ? ran : refused);
    }
  }
  CHECK(ran * 10 > refused);  // both are met
  CHECK(refused > 0);
}

// A mover that waits for room looks when something has changed. Of each load there are its end and, of either
// mover, one look that it made due and one that was due before; of each interval, the scheduler.
TEST_CASE("physical range: how often a cluster is looked at does not grow with its network's latency") {
  for (const double latency : {1e-3, 1.0, 1e3, 1e6}) {
    INFO("latency " << latency << " s");
    const Scenario s = exchanging(latency);
    const RunResult fast = run_cluster(s);
    REQUIRE(!fast.cluster.migrations.empty());
    REQUIRE(fast.cluster.migrations.front().adopted);
    std::uint64_t loads = 0, requests = 0;
    for (const MigrationRecord& m : fast.cluster.migrations) loads += m.adopted ? m.experts : 0;
    for (const ServerResult& server : fast.cluster.servers) requests += server.requests;
    const std::uint64_t most = fast.cluster.migrations.size() + requests + 2 * 3 * loads + 100;
    CHECK(fast.wakes <= most);
    const RunResult simgrid = unpack_result(
        engine::run_in_simgrid_child([&] { return pack_result(run_cluster(s, ExecutorKind::simgrid)); }));
    CHECK(simgrid.wakes <= most);
  }
}

}  // namespace moelab::physical_range_test
