// The network under SimGrid: closed forms, progressive filling, the fast executor, and files it cannot use.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "models/input_error.hpp"
#include "sim/simgrid_module.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/network_cases.hpp"

namespace moelab::network_simgrid_test {

using namespace moelab::engine;
using namespace moelab::test;

namespace {

using Topology = NetworkLaw::Topology;

constexpr std::uint64_t kCases = moelab::test::random_runs(400u, 40u);  // each in a process of its own

/// Computing and sending: each node computes one thing at a time, whatever is sent overlaps.
struct MixedJob {
  struct Op {
    double seconds;
    NodeId node, to;  // computes there, or sends from there
    double bytes;     // 0: computes
    std::vector<OpIndex> needs;
  };
  NetworkLaw law;
  std::vector<Op> ops;

  MixedJob(std::uint64_t seed, Shape shape) {
    NetworkCases random(seed);
    const std::size_t nodes = 2 + random.below(5);
    law = random.law(shape, nodes);
    const std::size_t count = 1 + random.below(40);
    for (std::size_t i = 0; i < count; ++i) {
      const NaiveFlow flow = random.flow(nodes);
      const bool sends = random.below(2) == 0;
      Op op{(sends ? 0.01 : 1) * flow.start_s, flow.from, flow.to, sends ? flow.bytes : 0, {}};
      for (std::size_t n = i == 0 ? 0 : random.below(3); n > 0; --n)
        op.needs.push_back(static_cast<OpIndex>(random.below(i)));
      ops.push_back(op);
    }
  }
  /// Ends of all operations.
  std::vector<double> ends(Engine& engine) const {
    for (std::size_t i = 0; i < law.nodes.size(); ++i) engine.add_resource("gpu", 1);
    const ResourceId wide = engine.add_resource("flows", kUnlimitedSlots);
    engine.set_network(law);
    Graph graph;
    for (const Op& op : ops) {
      const OpIndex added = graph.add(graph.lane(op.bytes > 0 ? wide : op.node), op.seconds);
      if (op.bytes > 0) graph.flow(added, op.node, op.to, op.bytes);
      for (const OpIndex need : op.needs) graph.depend(added, need);
    }
    const auto play = [&]() -> Process {
      engine.submit(graph, kDemand);
      co_await engine.finished(graph);
    };
    Process process = play();
    engine.spawn(process);
    engine.run();
    std::vector<double> ends;
    for (OpIndex i = 0; i < graph.size(); ++i) ends.push_back(graph.end(i));
    return ends;
  }
};

/// "" when both executors agree on every end to 1e-9, absolute below 1 s (SimGrid merges what is closer).
std::string difference(const MixedJob& job) {
  const std::vector<double> fast = job.ends(*make_fast_engine()), simgrid = job.ends(*make_simgrid_engine());
  std::vector<double> sorted = fast;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] > sorted[i - 1] && sorted[i] - sorted[i - 1] < 4e-9) return "near ties";
  for (std::size_t i = 0; i < fast.size(); ++i)
    if (std::abs(fast[i] - simgrid[i]) > 1e-9 * std::max(fast[i], 1.0))
      return "operation " + std::to_string(i) + ": " + std::to_string(fast[i]) + ", simgrid " +
             std::to_string(simgrid[i]);
  return "";
}

/// A file with that text, gone with the object.
class PlatformFile {
 public:
  explicit PlatformFile(const std::string& zone)
      : path_(std::filesystem::temp_directory_path() /
              ("moelab-platform-" + std::to_string(getpid()) + ".xml")) {
    std::ofstream(path_) << "<?xml version='1.0'?>\n"
                         << "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                         << "<platform version=\"4.1\">\n"
                         << zone << "</platform>\n";
  }
  PlatformFile(const PlatformFile&) = delete;
  PlatformFile& operator=(const PlatformFile&) = delete;
  ~PlatformFile() { std::filesystem::remove(path_); }
  NetworkLaw law(const std::vector<std::string>& hosts) const {
    return {Topology::platform, {}, path_.string(), hosts};
  }

 private:
  std::filesystem::path path_;
};

/// a and b are 10 ms and 1 MB/s apart, b and c 1 ms and 4 MB/s; a to c crosses both. d is connected to
/// no host.
constexpr const char* kZone = R"(<zone id="site" routing="Full">
  <host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="c" speed="1Gf"/><host id="d" speed="1Gf"/>
  <link id="ab" bandwidth="1MBps" latency="10ms"/><link id="bc" bandwidth="4MBps" latency="1ms"/>
  <route src="a" dst="b"><link_ctn id="ab"/></route>
  <route src="b" dst="c"><link_ctn id="bc"/></route>
  <route src="a" dst="c"><link_ctn id="ab"/><link_ctn id="bc"/></route>
</zone>
)";

std::string complaint(const NetworkLaw& law) {
  try {
    engine::run_in_simgrid_child([&] {
      make_simgrid_engine()->set_network(law);
      return std::string();
    });
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("network under simgrid: closed forms of one flow and of two") {
  // As for fast (network_test.cpp): 0.25 + 100 / min(50, 80) s; halves of 100 bytes/s until 2 s, then all.
  for (const Topology topology : {Topology::star, Topology::mesh}) {
    NetworkCase one{{topology, {{50, 60}, {100, 80}}, {}, {}}, {{0, 1, 0.25, 100}}, {}};
    CHECK(simgrid_ends(one)[0] == Approx(2.25).epsilon(1e-9));
  }
  NetworkCase two{
      {Topology::star, {{100, 1}, {1, 1000}, {1, 1000}}, {}, {}}, {{0, 1, 0, 100}, {0, 2, 0, 300}}, {}};
  CHECK(worst_difference(simgrid_ends(two), {2, 4}) < 1e-9);
  two.law.topology = Topology::mesh;
  CHECK(worst_difference(simgrid_ends(two), {1, 3}) < 1e-9);
}

TEST_CASE("network under simgrid: max-min where shares alone would waste a link") {
  // A sends to C and D, B to D; out 100 each, into D 60. Shares of D: 30 each; max-min gives A's other flow
  // what is left of A's way, 70. 700 bytes A to C: 10 s; 300 bytes each to D: 10 s.
  NetworkCase given{{Topology::star, {{100, 1}, {100, 1}, {1, 1000}, {1, 60}}, {}, {}},
                    {{0, 2, 0, 700}, {0, 3, 0, 300}, {1, 3, 0, 300}},
                    {}};
  CHECK(worst_difference(simgrid_ends(given), {10, 10, 10}) < 1e-9);
}

TEST_CASE("network under simgrid: no limit and no bytes take no time") {
  NetworkCase given{
      {Topology::star, {{kNoLimit, 1}, {1, kNoLimit}}, {}, {}}, {{0, 1, 2, 1e9}, {1, 0, 3, 0}}, {}};
  CHECK(worst_difference(simgrid_ends(given), {2, 3}) < 1e-9);
}

TEST_CASE("network under simgrid: rates are those of progressive filling, also when bandwidths change") {
  for (const Shape shape : {Shape::star, Shape::mesh, Shape::star_out})
    for (std::uint64_t seed = 0; seed < kCases; ++seed) {
      const NetworkCase given = NetworkCases(seed).draw(shape, seed % 2 == 1);
      const std::vector<double> expected = naive_ends(given.law, given.flows, max_min_rates,
                                                      given.then ? &*given.then : nullptr, given.change_s);
      INFO("shape " << static_cast<int>(shape) << ", seed " << seed);
      REQUIRE(worst_difference(simgrid_ends(given), expected) < 1e-6);
    }
}

TEST_CASE("network under simgrid: fast agrees where each flow has one limiting link") {
  for (const Shape shape : {Shape::mesh, Shape::star_out, Shape::star_in}) {
    std::uint64_t counted = 0;
    for (std::uint64_t seed = 0; seed < kCases + kCases / 10; ++seed) {
      const MixedJob job(seed, shape);
      const std::string said = engine::run_in_simgrid_child([&] { return difference(job); });
      if (said == "near ties") continue;
      ++counted;
      INFO("shape " << static_cast<int>(shape) << ", seed " << seed);
      REQUIRE(said == "");
    }
    CHECK(counted >= kCases);
  }
}

TEST_CASE("network under simgrid: a platform's latencies and bandwidths") {
  const PlatformFile file(kZone);
  // Alone: latency, then bytes over the narrowest link. a-b is crossed by two: a to b and a to c, 1 MB each;
  // the second begins 1 ms later, having 1 ms more latency: until then the first has sent 1 kB; then halves:
  // the first ends at 0.011 + 0.999 / 0.5 = 2.009 s; the second has 1 kB left: at 2.010 s. The third is alone
  // on its way, b to c, but for the half MB/s: min(4 - 0.5, 4 / 2) at least; it has 3.5 MB/s when the others
  // are there: from 1 ms to 11 ms 4 MB/s, 40 kB; then 3.46 MB at 3.5 MB/s.
  NetworkCase given{file.law({"a", "b", "c"}), {{0, 1, 0, 1e6}, {0, 2, 0, 1e6}, {1, 2, 0, 3.5e6}}, {}};
  CHECK(worst_difference(simgrid_ends(given), {2.009, 2.010, 0.011 + 3.46 / 3.5}) < 1e-6);
  given.flows = {{0, 2, 0.5, 1e6}};
  CHECK(worst_difference(simgrid_ends(given), {0.5 + 0.011 + 1}) < 1e-9);
  CHECK(engine::run_in_simgrid_child([&] {
          const auto engine = make_simgrid_engine();
          engine->set_network(given.law);
          return std::to_string(engine->flow_seconds(0, 2, 1e6));
        }) == std::to_string(1.011));
}

TEST_CASE("network under simgrid: a platform that cannot be used is an error that says why") {
  using Catch::Matchers::Contains;
  CHECK(complaint(PlatformFile(kZone).law({"a", "b"})) == "");
  CHECK_THAT(complaint(PlatformFile(kZone).law({"a", "d"})), Contains("no route from host 'a' to host 'd'"));
  CHECK_THAT(complaint(PlatformFile(kZone).law({"a", "e"})), Contains("there is no host 'e'"));
  CHECK_THAT(complaint(PlatformFile(kZone).law({"a", "a"})), Contains("given twice"));
  CHECK_THAT(complaint({Topology::platform, {}, "/no/such.xml", {"a"}}), Contains("there is no such file"));
  const PlatformFile wrong("<zone id=\"z\" routing=\"Full\"><hoost id=\"a\"/></zone>\n");
  CHECK_THAT(complaint(wrong.law({"a"})), Contains("SimGrid cannot use this platform"));
  CHECK_THAT(complaint({Topology::mesh, std::vector<NetworkLaw::Node>(257, {1, 1}), {}, {}}),
             Contains("use a star, or executor fast"));
}

}  // namespace moelab::network_simgrid_test
