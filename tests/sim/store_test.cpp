// The store of results: what comes back, and what happens to other writers, kills, full disks and damage.
#include <catch2/catch.hpp>

#include "sim/store/result_store.hpp"
#include "tests/sim/store_cases.hpp"
#include "tests/traces/trace_files.hpp"

namespace {

using namespace moelab;
using namespace moelab::test;
using Access = ResultStore::Access;

void check_same(const StoredRun& a, const StoredRun& b) {
  CHECK(a.identity == b.identity);
  CHECK(a.status == b.status);
  CHECK(a.error == b.error);
  CHECK(a.scenario == b.scenario);
  CHECK(a.system == b.system);
  CHECK(a.executor == b.executor);
  CHECK(a.version == b.version);
  CHECK(a.seed == b.seed);
  CHECK(a.started == b.started);
  CHECK(a.wall_s == b.wall_s);
  CHECK(a.cpu_s == b.cpu_s);
  CHECK(a.peak_bytes == b.peak_bytes);
  CHECK(a.host == b.host);
  CHECK(a.result == b.result);
}

void check_same(const StoredPoint& a, const StoredPoint& b) {
  CHECK(a.number == b.number);
  CHECK(a.axes == b.axes);
  CHECK(a.series == b.series);
  CHECK(a.system == b.system);
  CHECK(a.settings == b.settings);
  CHECK(a.run == b.run);
}

}  // namespace

TEST_CASE("store: a sweep, its points and its runs come back as they were put in") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  StoredPoint odd = stored_point(1, "12 GB", "zipmoe", "b");
  odd.axes = {{"zeta", "\"quoted\"\n\t\\"}, {"alpha", "µs 用"}, {"empty", ""}};  // in this order
  odd.settings = {{"a.b", "1"}, {"a.b", "2"}};                                   // the same one twice
  odd.series = "";
  StoredRun failed = stored_run("b");
  failed.status = RunStatus::failed;
  failed.error = "budget: too small\nline two";
  failed.result = "";
  {
    ResultStore store(file, Access::write);
    store.put_sweep(stored_sweep("second"), {});
    store.put_sweep(stored_sweep("first"), {stored_point(0, "8 GB", "lru", "a"), odd});
    store.put_run(stored_run("a"));
    store.put_run(failed);
  }
  CHECK(folder.names() == std::vector<std::string>{"results.db"});
  const ResultStore store(file, Access::read);
  const std::vector<StoredSweep> sweeps = store.sweeps();
  REQUIRE(sweeps.size() == 2);
  CHECK(sweeps[0].name == "first");
  CHECK(sweeps[0].points == 2);
  CHECK(sweeps[1].name == "second");
  CHECK(sweeps[1].question == "which budget?");
  CHECK(sweeps[1].file == "name: second\n");
  CHECK(sweeps[1].created == "2026-11-22T05:00:00Z");
  CHECK(sweeps[1].version == "0.1.0");
  CHECK(sweeps[1].points == 0);
  const std::vector<StoredPoint> points = store.points("first");
  REQUIRE(points.size() == 2);
  check_same(points[0], stored_point(0, "8 GB", "lru", "a"));
  check_same(points[1], odd);
  check_same(store.run("a", true).value(), stored_run("a"));
  check_same(store.run("b", true).value(), failed);
  CHECK(store.run("a", false)->result.empty());
  CHECK_FALSE(store.run("c", true).has_value());
  CHECK(store.is_done("a"));
  CHECK_FALSE(store.is_done("b"));
  CHECK_FALSE(store.is_done("c"));
  CHECK(store.points("third").empty());
}
