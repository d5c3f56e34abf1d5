// Running sweeps: the same results for any number of processes and as single runs, nothing lost, nothing
// twice.
#include "sim/sweep/run_sweep.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <thread>

#include "sim/results/result_json.hpp"
#include "sim/run.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/scenario_files.hpp"

namespace moelab::sweep_run_test {

using namespace moelab::test;

namespace {

constexpr std::uint64_t kRepeats = random_runs(2u, 1u), kPoints = 3 * 2 * 2 * kRepeats;  // of two systems
const std::string kSweep =
    "name: s\nscenario: scenario.yaml\naxes: {budget: [300 kB, 350 kB, 400 kB], workload.batch: [1, 2]}\n"
    "repeats: " +
    std::to_string(kRepeats) + "\n";

class SweepFolder : public Files {
 public:
  SweepFile sweep(const std::string& text = kSweep) const { return read_sweep({path("sweep.yaml"), text}); }
  std::string db(const std::string& name = "results.db") const { return path(name); }
  SweepSummary run(const SweepFile& sweep, const std::string& db, std::size_t jobs,
                   SweepOptions options = {}) const {
    const CheckedSweep checked = check_sweep(sweep, jobs);
    ResultStore store(db, ResultStore::Access::write);
    ForkedWorkers workers(jobs, {sweep.limit_s, sweep.limit_bytes});
    return run_sweep(sweep, checked, store, workers, options);
  }
};

/// By what varies: the stored JSON.
std::map<std::string, std::string> stored(const std::string& db, const std::string& sweep = "s") {
  const ResultStore store(db, ResultStore::Access::read);
  std::map<std::string, std::string> all;
  for (const StoredPoint& point : store.points(sweep)) {
    std::string key = point.system + " " + point.series;
    for (const auto& [name, value] : point.axes) key += " " + name + "=" + value;
    const auto run = store.run(point.run, true);
    all[key] = run ? run->result : "";
  }
  return all;
}

/// Runs points here and now, as workers at "a" and "b" in turn; one in three answers of b is another.
class TwoWorkers : public PointWorkers {
 public:
  std::size_t room() const override { return done_.empty() ? 1 : 0; }
  void start(std::uint64_t number, std::function<PointJob()> job, const std::string& elsewhere) override {
    PointOutcome outcome;
    outcome.host = "host";
    outcome.worker = elsewhere == "a" ? "b" : "a";
    outcome.child.kind = ChildOutcome::Kind::done;
    outcome.child.text = run_point(job());
    if (outcome.worker == "b" && ++answers_of_b_ % 3 == 0) outcome.child.text += " ";
    done_.emplace_back(number, std::move(outcome));
    most_at_a_time = std::max(most_at_a_time, done_.size());
  }
  std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double) override {
    return std::exchange(done_, {});
  }
  std::size_t most_at_a_time = 0;

 private:
  int answers_of_b_ = 0;
  std::vector<std::pair<std::uint64_t, PointOutcome>> done_;
};

}  // namespace

TEST_CASE("sweep: a share of the runs is run a second time elsewhere, and other bytes fail the point") {
  const SweepFolder folder;
  const SweepFile sweep = folder.sweep("name: s\nscenario: scenario.yaml\nrepeats: 3\n");  // 6 runs
  const CheckedSweep checked = check_sweep(sweep, 2);
  for (const auto& [share, verified, failed] :
       {std::tuple(0.0, 0u, 0u), {0.01, 1u, 0u}, {0.5, 2u, 1u}, {1.0, 4u, 2u}}) {
    const std::string db = folder.db(std::to_string(share) + ".db");
    ResultStore store(db, ResultStore::Access::write);
    TwoWorkers workers;
    SweepOptions options;
    options.verify_share = share;
    const SweepSummary summary = run_sweep(sweep, checked, store, workers, options);
    CHECK(workers.most_at_a_time == 1);
    CHECK(summary.verified == verified);
    CHECK(summary.failed == failed);
    CHECK(summary.done == 6 - failed);
    for (const auto& failure : summary.failures)
      CHECK(
          failure.run.error ==
          "two runs of this point differ, on host (a) and on host (b): their results are not the same bytes");
  }
  SweepOptions all;
  all.verify_share = 1;
  CHECK(folder.run(sweep, folder.db("forked.db"), 2, all).verified == 6);
}

TEST_CASE("sweep: results are those of single runs, byte for byte, for any number of processes") {
  const SweepFolder folder;
  const SweepFile sweep = folder.sweep();
  const SweepSummary one = folder.run(sweep, folder.db("one.db"), 1);
  const SweepSummary three = folder.run(sweep, folder.db("three.db"), 3);
  CHECK(one.points == kPoints);
  CHECK(one.done == one.points);
  CHECK(three.done == one.points);
  const auto results = stored(folder.db("one.db"));
  CHECK(results == stored(folder.db("three.db")));
  const ResultStore store(folder.db("one.db"), ResultStore::Access::read);
  for (const StoredPoint& point : store.points("s")) {
    // What `moelab run scenario.yaml --set ... --system ... --format json` does.
    Scenario s = load_scenario(folder.path("scenario.yaml"), point.settings);
    const auto system = std::find_if(s.systems.begin(), s.systems.end(),
                                     [&](const SystemConfig& c) { return c.name == point.system; });
    REQUIRE(system != s.systems.end());
    CHECK(store.run(point.run, true)->result == results_json({run_system(s, *system, scenario_trace(s))}));
  }
}

TEST_CASE("sweep: what is there is not run again, what changed is") {
  const SweepFolder folder;
  folder.run(folder.sweep(), folder.db(), 2);
  const SweepSummary again = folder.run(folder.sweep(), folder.db(), 2);
  CHECK(again.there == again.runs);
  CHECK(again.done == 0);
  // One budget more, one less: only what is new is run.
  std::string wider = kSweep;
  wider.replace(wider.find("300 kB"), 6, "450 kB");
  const SweepSummary next = folder.run(folder.sweep(wider), folder.db(), 2);
  CHECK(next.there == 2 * 2 * 2 * kRepeats);
  CHECK(next.done == 2 * 2 * kRepeats);
  SweepOptions options;
  options.again = true;
  CHECK(folder.run(folder.sweep(wider), folder.db(), 2, options).done == kPoints);
}

TEST_CASE("sweep: points of another build are run again, and whose they were is said") {
  const SweepFolder folder;
  CHECK(folder.run(folder.sweep(), folder.db(), 2).earlier_version.empty());
  {  // as another build leaves it: its runs have other identities
    ResultStore store(folder.db(), ResultStore::Access::write);
    StoredSweep sweep = store.sweeps().front();
    std::vector<StoredPoint> points = store.points("s");
    sweep.version = "0.0.9+12345678";
    for (StoredPoint& point : points) point.run = "another " + point.run;
    store.put_sweep(sweep, points);
  }
  const SweepSummary again = folder.run(folder.sweep(), folder.db(), 2);
  CHECK(again.earlier_version == "0.0.9+12345678");
  CHECK(again.dropped == again.points);
  CHECK(folder.run(folder.sweep(), folder.db(), 2).earlier_version.empty());
}

TEST_CASE("sweep: where leaves points out, and says so where none is left") {
  const SweepFolder folder;
  const CheckedSweep some =
      check_sweep(folder.sweep(kSweep + "where: budget > 320 kB and workload.batch == 2\n"), 2);
  CHECK(some.points.size() == 2 * 2 * kRepeats);
  for (const StoredPoint& point : some.points) CHECK(point.axes[0].second != "300 kB");
  CHECK_THROWS_WITH(check_sweep(folder.sweep(kSweep + "where: budget > 1 GB\n"), 2),
                    Catch::Contains("no point is left"));
  CHECK_THROWS_WITH(check_sweep(folder.sweep(kSweep + "where: budgte > 1 GB\n"), 2),
                    Catch::Contains("budget"));
  CHECK(check_sweep(folder.sweep(kSweep + "where: model.size > budget or device == 'tiny-device'\n"), 2)
            .points.size() == kPoints);
}

TEST_CASE("sweep: systems that it does not run keep it from nothing") {
  SweepFolder folder;
  folder.write("pooled.yaml", kSystem + "no_such_key: 1\n");
  CHECK_THROWS_WITH(folder.sweep(), Catch::Contains("no_such_key"));
  CHECK(check_sweep(folder.sweep(kSweep + "systems: [inline]\n"), 2).points.size() == kPoints / 2);
  CHECK(check_sweep(folder.sweep(kSweep + "series: {one: {system: inline}}\n"), 2).points.size() ==
        kPoints / 2);
}

TEST_CASE("sweep: every point is checked before the first one runs") {
  const SweepFolder folder;
  std::string bad = kSweep;
  bad.replace(bad.find("400 kB"), 6, "1 TB");
  try {
    check_sweep(folder.sweep(bad), 2);
    FAIL("a budget beyond the device's memory");
  } catch (const InputError& error) {
    CHECK_THAT(all_of(error.problems()), Catch::Contains("budget = 1 TB"));
    CHECK(error.problems().size() <= 11);
  }
  try {
    check_sweep(folder.sweep("name: s\nscenario: scenario.yaml\naxes: {workload.bacth: [1, 2]}\n"), 2);
    FAIL("an axis that names no key");
  } catch (const InputError& error) {
    CHECK_THAT(all_of(error.problems()), Catch::Contains("bacth") && Catch::Contains("batch"));
  }
}

TEST_CASE("sweep: a point that fails is kept as such, the others go on") {
  const SweepFolder folder;
  const SweepFile sweep = folder.sweep();
  const CheckedSweep checked = check_sweep(sweep, 2);
  /// Fails two points, one by an exception, one by a signal.
  class Spoiler : public ForkedWorkers {
   public:
    using ForkedWorkers::ForkedWorkers;
    void start(std::uint64_t number, std::function<PointJob()> job, const std::string& elsewhere) override {
      if (number == 3) return start_work(number, []() -> std::string { throw std::runtime_error("spoilt"); });
      if (number == 5)
        return start_work(number, []() -> std::string {
          raise(SIGKILL);
          return "";
        });
      if (number == 7)
        return start_work(number, []() -> std::string {
          for (;;) pause();
        });
      ForkedWorkers::start(number, std::move(job), elsewhere);
    }
  };
  ResultStore store(folder.db(), ResultStore::Access::write);
  Spoiler spoiler(2, {2.0, 0});
  const SweepSummary s = run_sweep(sweep, checked, store, spoiler, {});
  CHECK(s.failed == 3);
  CHECK(s.done == kPoints - 3);
  CHECK(store.run(checked.points[3].run, false)->error == "spoilt");
  CHECK_THAT(store.run(checked.points[5].run, false)->error, Catch::Contains("signal 9"));
  CHECK(store.run(checked.points[7].run, false)->status == RunStatus::timeout);
  // The same command goes on with what is missing.
  ForkedWorkers workers(2, {});
  const SweepSummary next = run_sweep(sweep, checked, store, workers, {});
  CHECK(next.there == kPoints - 3);
  CHECK(next.done == 3);
}

TEST_CASE("sweep: an outcome that the store refuses fails its point, and the others go on") {
  const SweepFolder folder;
  const SweepFile sweep = folder.sweep("name: s\nscenario: scenario.yaml\nrepeats: 3\n");  // 6 runs
  const CheckedSweep checked = check_sweep(sweep, 2);
  /// One run takes a time that is no number, another fails for a reason that is too long for SQLite.
  class Odd : public ForkedWorkers {
   public:
    using ForkedWorkers::ForkedWorkers;
    std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double seconds) override {
      auto done = ForkedWorkers::wait(seconds);
      for (auto& [number, outcome] : done) {
        if (number == 1) outcome.child.wall_s = std::numeric_limits<double>::quiet_NaN();
        if (number != 2) continue;
        outcome.child.kind = ChildOutcome::Kind::failed;
        outcome.child.text.assign(std::size_t{256} << 20, 'x');
      }
      return done;
    }
  };
  ResultStore store(folder.db(), ResultStore::Access::write);
  Odd workers(2, {});
  const SweepSummary s = run_sweep(sweep, checked, store, workers, {});
  CHECK(s.failed == 2);
  CHECK(s.done == 4);
  CHECK_THAT(store.run(checked.points[1].run, false)->error, Catch::Contains("does not take this: NOT NULL"));
  CHECK_THAT(store.run(checked.points[2].run, false)->error, Catch::Contains("too big"));
  CHECK(store.run(checked.points[2].run, false)->system == checked.points[2].system);
  store.check_whole();
}

TEST_CASE("sweep: one that is killed at any time goes on where it was") {
  const SweepFolder folder;
  const SweepFile sweep = folder.sweep();
  const SweepFolder whole;
  whole.run(whole.sweep(), whole.db(), 2);
  std::uint64_t there_before = 0;
  for (int round = 0; round < random_runs(12, 4); ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        folder.run(sweep, folder.db(), 2);
      } catch (...) {
        _exit(2);
      }
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random_runs(17, 60) * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (access(folder.db().c_str(), F_OK) != 0) continue;
    const CheckedSweep checked = check_sweep(sweep, 2);
    std::uint64_t there = 0;
    try {
      const ResultStore store(folder.db(), ResultStore::Access::read);
      for (const StoredPoint& point : checked.points) there += store.is_done(point.run) ? 1 : 0;
    } catch (const InputError& error) {
      // Killed before the store's first transaction; a writer goes on from there.
      REQUIRE_THAT(error.what(), Catch::Contains("is an empty database"));
    }
    CHECK(there >= there_before);  // nothing finished is lost
    there_before = there;
  }
  const SweepSummary rest = folder.run(sweep, folder.db(), 2);
  CHECK(rest.there >= there_before);
  CHECK(rest.there + rest.done == rest.runs);
  for (const auto& [key, json] : stored(folder.db())) CHECK_FALSE(json.empty());
}

TEST_CASE("sweep: a stop from outside leaves a store that goes on") {
  const SweepFolder folder;
  std::atomic<bool> stop{false};
  SweepOptions options;
  options.stop = &stop;
  options.progress = [&](const SweepProgress& p) { stop.store(p.done >= 5); };
  const SweepSummary s = folder.run(folder.sweep(), folder.db(), 2, options);
  CHECK(s.stopped);
  CHECK(s.done >= 5);
  CHECK(s.done < s.runs);
  CHECK(folder.run(folder.sweep(), folder.db(), 2).there == s.done);
}

}  // namespace moelab::sweep_run_test
