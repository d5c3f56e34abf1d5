// SimGrid against `fast` on clusters: the same where every flow has one link that limits it.
#include <catch2/catch.hpp>

#include "sim/child_process.hpp"
#include "sim/results/result_transfer.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/cluster_cases.hpp"

namespace moelab::cluster_simgrid_test {

using namespace moelab::test;

namespace {

RunResult run_simgrid(const Scenario& s) {
  return unpack_result(run_in_child([&] { return pack_result(run_cluster(s, ExecutorKind::simgrid)); }));
}

}  // namespace

TEST_CASE("simgrid: clusters agree with fast on a mesh, and on a star that only senders limit") {
  for (std::uint64_t seed = 1; seed <= moelab::test::random_runs(40u, 4u); ++seed) {
    Scenario s = seed % 4 < 2 ? random_cluster(seed) : random_mixed_cluster(seed);
    INFO("seed " << seed);
    // Decisions of when to migrate hang on times; without them both do the same.
    placed_of(s).migration.reset();
    if (seed % 2 == 0)
      s.cluster->profile.network.topology = ClusterNetwork::Topology::mesh;
    else
      for (ClusterServer& server : s.cluster->profile.servers) server.in = BytesPerSecond(1e12);
    const RunResult fast = run_cluster(s), simgrid = run_simgrid(s);
    REQUIRE(simgrid.metrics.end_to_end_s.size() == fast.metrics.end_to_end_s.size());
    for (std::size_t i = 0; i < fast.metrics.end_to_end_s.size(); ++i)
      CHECK(simgrid.metrics.end_to_end_s[i] == Approx(fast.metrics.end_to_end_s[i]).epsilon(1e-6));
    for (std::size_t i = 0; i < fast.cluster.servers.size(); ++i) {
      CHECK(simgrid.cluster.servers[i].network_bytes == fast.cluster.servers[i].network_bytes);
      CHECK(simgrid.cluster.servers[i].remote_calls == fast.cluster.servers[i].remote_calls);
    }
  }
}

}  // namespace moelab::cluster_simgrid_test
