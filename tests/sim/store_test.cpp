// The store of results: what comes back, and what happens to other writers, kills, full disks and damage.
#include <poll.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>

#include "sim/store/result_store.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/store_cases.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::store_test {
namespace {

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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A small store, closed; its bytes.
std::string small_store(const std::filesystem::path& file) {
  {
    ResultStore store(file, Access::write);
    store.put_sweep(stored_sweep("one"),
                    {stored_point(0, "8 GB", "lru", "a"), stored_point(1, "9 GB", "lru", "b")});
    store.put_run(stored_run("a"));
    store.put_run(stored_run("b", "null"));
  }
  return read_bytes(file);
}

/// By SQLite itself, on a connection of its own: the first row of what a statement answers, each value with
/// a bar behind it; or its error.
std::string row_of(const std::filesystem::path& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  std::string text;
  const auto take = [](void* out, int columns, char** values, char**) {
    auto& row = *static_cast<std::string*>(out);
    if (row.empty())
      for (int c = 0; c < columns; ++c) row += std::string(values[c] != nullptr ? values[c] : "NULL") + "|";
    return 0;
  };
  char* error = nullptr;
  sqlite3_exec(database, sql.c_str(), take, &text, &error);
  if (error != nullptr) text = error;
  sqlite3_free(error);
  sqlite3_close(database);
  return text;
}

/// The one value that it answers.
std::string answer(const std::filesystem::path& file, const std::string& sql) {
  const std::string row = row_of(file, sql);
  return row.substr(0, row.find('|'));
}

/// Everything that the interface reads; throws InputError where the file is damaged.
void read_all(const std::filesystem::path& file) {
  const ResultStore store(file, Access::read);
  for (const StoredSweep& sweep : store.sweeps()) {
    store.counts(sweep.name);
    store.points(sweep.name);
    for (const StoredOutcome& o : store.outcomes(sweep.name)) store.run(o.point.run, true);
  }
  store.is_done("a");
  store.mean_cpu_s("zipmoe-orin", "zipmoe");
}

/// Runs `work` in a child, which ends without the parent's destructors.
pid_t in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child");
  if (child > 0) return child;
  try {
    work();
  } catch (...) {  // whatever it is, a child must not go on with the tests
    ::_exit(1);
  }
  ::_exit(0);
}

int status_of(pid_t child) {
  int raw = 0;
  ::waitpid(child, &raw, 0);
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

struct Pipe {
  Pipe() {
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void say(char word) const { REQUIRE(::write(ends[1], &word, 1) == 1); }
  /// 0 at the end, or where nothing comes for a minute.
  char hear() const {
    char word = 0;
    pollfd end{ends[0], POLLIN, 0};
    if (::poll(&end, 1, 60'000) != 1) return '\0';
    return ::read(ends[0], &word, 1) == 1 ? word : '\0';
  }
  int ends[2];
};

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

TEST_CASE("store: the main metrics become columns; null and what is not there become NULL") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  StoredRun bare = stored_run("c");
  bare.result = "{}";
  StoredRun timeout = stored_run("d");
  timeout.status = RunStatus::timeout;
  timeout.result = "";
  {
    ResultStore store(file, Access::write);
    std::vector<StoredPoint> points;
    for (const char* run : {"a", "b", "c", "d", "e", "a"})
      points.push_back(stored_point(points.size(), "8 GB", "lru", run));
    store.put_sweep(stored_sweep("one"), points);
    for (const StoredRun& run : {stored_run("a"), stored_run("b", "null"), bare, timeout}) store.put_run(run);
  }
  const ResultStore store(file, Access::read);
  const std::vector<StoredOutcome> outcomes = store.outcomes("one");
  REQUIRE(outcomes.size() == 6);
  // Of result_text(), in the order of kMetricColumns.
  const StoredMetrics whole = {1.5, 0.125, 0.25, 0.5, 1e-7, 12.0, 9.98, 1000.0, 5.0, 64.0};
  StoredMetrics without = whole;
  without[1] = std::nullopt;
  CHECK(outcomes[0].metrics == whole);
  CHECK(outcomes[1].metrics == without);
  CHECK(outcomes[2].metrics == StoredMetrics{});
  CHECK(outcomes[3].metrics == StoredMetrics{});
  CHECK(outcomes[3].run->status == RunStatus::timeout);
  CHECK_FALSE(outcomes[4].run.has_value());
  CHECK(outcomes[5].metrics == whole);  // two points that are the same run
  CHECK(outcomes[0].run->result.empty());
  const SweepCounts counts = store.counts("one");
  CHECK(counts.done == 4);
  CHECK(counts.failed == 1);
  CHECK(counts.missing == 1);
  // As other tools see it.
  CHECK(answer(file, "SELECT tpot_s FROM run WHERE identity = 'a'") == "0.125");
  CHECK(answer(file, "SELECT tpot_s FROM run WHERE identity = 'b'") == "NULL");
  CHECK(answer(file, "SELECT typeof(tokens) || tokens FROM run WHERE identity = 'a'") == "integer1000");
  CHECK(answer(file, "SELECT json_extract(result, '$.metrics.tpot_s.p99') FROM run") == "1.0e-07");
  CHECK(answer(file, "SELECT seed FROM run") == "18446744073709551615");
  CHECK(answer(file, "SELECT count(*) FROM result WHERE sweep = 'one' AND ttft_s = 1.5") == "3");
  CHECK(answer(file, "SELECT status FROM result WHERE number = 4") == "missing");
  CHECK(answer(file, "SELECT json_extract(axes, '$.budget') FROM result") == "8 GB");
}

TEST_CASE(
    "store: a sweep entered again replaces its points and keeps runs; a run entered again is replaced") {
  const ScratchFolder folder;
  ResultStore store(folder / "results.db", Access::write);
  store.put_sweep(stored_sweep("one"),
                  {stored_point(0, "8 GB", "lru", "a"), stored_point(1, "9 GB", "lru", "b")});
  store.put_sweep(stored_sweep("two"), {stored_point(0, "8 GB", "lru", "a")});
  store.put_run(stored_run("a"));
  StoredSweep later = stored_sweep("one");
  later.question = "another?";
  store.put_sweep(later, {stored_point(5, "9 GB", "lru", "b")});
  REQUIRE(store.sweeps().size() == 2);
  CHECK(store.sweeps()[0].question == "another?");
  REQUIRE(store.points("one").size() == 1);
  CHECK(store.points("one")[0].number == 5);
  CHECK(store.points("two").size() == 1);
  CHECK(store.is_done("a"));
  StoredRun again = stored_run("a", "0.5");
  again.status = RunStatus::memory;
  store.put_run(again);
  check_same(store.run("a", true).value(), again);
  CHECK_FALSE(store.is_done("a"));
}

TEST_CASE("store: mean processor time is that of finished runs of one scenario's system") {
  const ScratchFolder folder;
  ResultStore store(folder / "results.db", Access::write);
  CHECK_FALSE(store.mean_cpu_s("zipmoe-orin", "zipmoe").has_value());
  const auto put = [&](const std::string& identity, double cpu_s, const std::string& system,
                       RunStatus status) {
    StoredRun run = stored_run(identity);
    run.cpu_s = cpu_s;
    run.system = system;
    run.status = status;
    store.put_run(run);
  };
  put("a", 1, "zipmoe", RunStatus::done);
  put("b", 4, "zipmoe", RunStatus::done);
  put("c", 100, "zipmoe", RunStatus::failed);
  put("d", 1000, "lru", RunStatus::done);
  CHECK(store.mean_cpu_s("zipmoe-orin", "zipmoe") == 2.5);  // (1 + 4) / 2
  CHECK_FALSE(store.mean_cpu_s("other", "zipmoe").has_value());
}

TEST_CASE("store: what cannot be stored is refused and changes nothing") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  ResultStore store(file, Access::write);
  store.put_sweep(stored_sweep("one"), {stored_point(0, "8 GB", "lru", "a")});
  CHECK(contains(error_of([&] {
                   store.put_sweep(stored_sweep("one"), {stored_point(1, "8 GB", "lru", "a"),
                                                         stored_point(2, "\xff", "lru", "b")});
                 }),
                 "an axis of point 2 is not UTF-8"));
  CHECK(contains(error_of([&] {
                   store.put_sweep(stored_sweep("one"), {stored_point(1, "8 GB", "lru", "a"),
                                                         stored_point(1, "9 GB", "lru", "b")});
                 }),
                 "UNIQUE constraint failed"));
  StoredRun run = stored_run("a");
  for (const char* no_object : {"{", "[1]", "1", "moelab: killed"}) {
    run.result = no_object;
    CHECK(contains(error_of([&] { store.put_run(run); }), "the result of run a is no JSON object"));
  }
  REQUIRE(store.points("one").size() == 1);
  CHECK(store.points("one")[0].number == 0);
  CHECK_FALSE(store.run("a", false).has_value());
}

TEST_CASE("store: a second writer is refused with the first one's number, in its process and in another") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  Pipe ready, done;
  const pid_t writer = in_child([&] {
    ResultStore store(file, Access::write);
    store.put_run(stored_run("a"));
    ready.say('w');
    done.hear();
  });
  REQUIRE(ready.hear() == 'w');
  const std::string refusal = "process " + std::to_string(writer) + " is writing it";
  CHECK(contains(error_of([&] { ResultStore(file, Access::write); }), refusal));
  std::filesystem::create_symlink(file, folder / "alias.db");  // the same file under another name
  CHECK(contains(error_of([&] { ResultStore(folder / "alias.db", Access::write); }), refusal));
  CHECK(ResultStore(file, Access::read).is_done("a"));
  done.say('e');
  CHECK(status_of(writer) == 0);

  ResultStore store(file, Access::write);
  CHECK(contains(error_of([&] { ResultStore(file, Access::write); }),
                 "process " + std::to_string(::getpid()) + " is writing it"));
  store.put_run(stored_run("b"));
}

TEST_CASE("store: a killed writer's children do not keep its lock, nor do they disturb it") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  Pipe ready, done, born;
  const pid_t writer = in_child([&] {
    auto store = std::make_unique<ResultStore>(file, Access::write);
    in_child([&] {
      store.reset();  // no business of the child's
      born.say('b');
      done.hear();
    });
    born.hear();
    if (error_of([&] { ResultStore(file, Access::write); }).empty()) throw std::runtime_error("not locked");
    store->put_run(stored_run("a"));
    ready.say('w');
    ::pause();
  });
  REQUIRE(ready.hear() == 'w');
  ::kill(writer, SIGKILL);
  CHECK(status_of(writer) == 128 + SIGKILL);
  {
    ResultStore store(file, Access::write);  // while the worker still lives
    CHECK(store.is_done("a"));
  }
  done.say('e');
}

TEST_CASE("store: readers see whole states while one writes") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  constexpr int kRuns = 100;
  ResultStore(file, Access::write).put_sweep(stored_sweep("one"), {});
  Pipe ready;
  const pid_t writer = in_child([&] {
    ResultStore store(file, Access::write);
    ready.say('w');
    for (int i = 1; i <= kRuns; ++i) {
      // A sweep of i points that all have i as their budget: half of it would show.
      std::vector<StoredPoint> points;
      for (int p = 0; p < i; ++p)
        points.push_back(stored_point(static_cast<std::uint64_t>(p), std::to_string(i), "lru", "r"));
      store.put_sweep(stored_sweep("one"), points);
    }
  });
  REQUIRE(ready.hear() == 'w');
  const auto enough = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  std::size_t before = 0;
  while (before < kRuns && std::chrono::steady_clock::now() < enough) {
    const ResultStore store(file, Access::read);
    const std::vector<StoredPoint> points = store.points("one");
    REQUIRE(points.size() >= before);
    for (const StoredPoint& point : points) REQUIRE(point.axes[0].second == std::to_string(points.size()));
    before = points.size();
  }
  CHECK(before == kRuns);
  CHECK(status_of(writer) == 0);
}

TEST_CASE("store: a writer killed at any instant leaves everything that it was told was in") {
  const ScratchFolder folder;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> microseconds(0, 40'000);
  std::size_t most = 0;
  for (int round = 0; round < 50; ++round) {
    const auto file = folder / ("results" + std::to_string(round / 10) + ".db");  // 10 kills a file
    const std::string prefix = std::to_string(round) + "-";
    Pipe told;
    const pid_t writer = in_child([&] {
      ResultStore store(file, Access::write);
      for (int i = 0;; ++i) {
        StoredRun run = stored_run(prefix + std::to_string(i));
        run.result = result_text("0.125", std::string(static_cast<std::size_t>(1 + 997 * i % 30'000), 'x'));
        store.put_run(run);
        told.say('p');
        const std::vector<StoredPoint> points(1, stored_point(0, std::to_string(i), "lru", run.identity));
        store.put_sweep(stored_sweep(prefix + std::to_string(i)), points);
        told.say('s');
      }
    });
    ::usleep(static_cast<useconds_t>(microseconds(random)));
    ::kill(writer, SIGKILL);
    CHECK(status_of(writer) == 128 + SIGKILL);
    ::close(told.ends[1]);
    told.ends[1] = -1;
    std::size_t runs = 0, sweeps = 0;
    for (char word = told.hear(); word != '\0'; word = told.hear()) ++(word == 'p' ? runs : sweeps);
    ResultStore store(file, Access::write);
    for (std::size_t i = 0; i < runs; ++i) {
      const std::string identity = prefix + std::to_string(i);
      const std::optional<StoredRun> run = store.run(identity, true);
      REQUIRE(run.has_value());
      REQUIRE(run->result == result_text("0.125", std::string(1 + 997 * i % 30'000, 'x')));
      if (i < sweeps) REQUIRE(store.points(identity).size() == 1);
    }
    most = std::max(most, runs);
    REQUIRE(answer(file, "PRAGMA integrity_check") == "ok");
  }
  CHECK(most > 3);  // kills came while it wrote
}

TEST_CASE("store: a full disk is an error, and the store stays readable and can be written later") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  small_store(file);
  Pipe told;
  const pid_t writer = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    ResultStore store(file, Access::write);
    const rlimit limit{400'000, 400'000};  // bytes of a file, the log's too
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 1000; ++i) {
      StoredRun run = stored_run("full-" + std::to_string(i));
      run.result = result_text("0.125", std::string(20'000, 'x'));
      try {
        store.put_run(run);
        told.say('p');
      } catch (const InputError& error) {
        const bool clear =
            contains(error.what(), "results.db: cannot be") || contains(error.what(), "no space");
        told.say(clear ? 'e' : '?');
        store.sweeps();  // still readable here
        return;
      }
    }
  });
  CHECK(status_of(writer) == 0);
  told.say('.');
  int put = 0;
  char word = told.hear();
  for (; word == 'p'; word = told.hear()) ++put;
  CHECK(word == 'e');
  CHECK(put > 3);
  CHECK(put < 20);  // 20 of them take the 400,000 bytes
  ResultStore store(file, Access::write);
  CHECK(store.is_done("a"));
  for (int i = 0; i < put; ++i) CHECK(store.is_done("full-" + std::to_string(i)));
  CHECK_FALSE(store.is_done("full-" + std::to_string(put)));
  store.put_run(stored_run("later"));
  CHECK(answer(file, "PRAGMA integrity_check") == "ok");
}

TEST_CASE("store: a disk that is full from the start") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  const pid_t writer = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (error_of([&] { ResultStore(file, Access::write); }).empty()) throw std::runtime_error("no error");
  });
  CHECK(status_of(writer) == 0);
  ResultStore(file, Access::write).put_run(stored_run("a"));  // with space again
}

TEST_CASE("store: a folder that cannot be written can be read, and not written") {
  const ScratchFolder folder;
  const auto inner = folder / "read only";
  std::filesystem::create_directory(inner);
  const auto file = inner / "100% sure?#.db";
  small_store(file);
  const auto as_other_user = [&](const std::function<void()>& work) {
    return status_of(in_child([&] {
      if (::getuid() == 0 && ::setuid(65534) != 0) throw std::runtime_error("no other user");
      work();
    }));
  };
  ::chmod((folder / "").c_str(), 0755);
  ::chmod(file.c_str(), 0444);
  ::chmod(inner.c_str(), 0555);
  CHECK(as_other_user([&] {
          if (!ResultStore(file, Access::read).is_done("a")) throw std::runtime_error("not read");
        }) == 0);
  CHECK(as_other_user([&] {
          const std::string error = error_of([&] { ResultStore(file, Access::write); });
          if (!contains(error, "cannot be written")) throw std::runtime_error(error);
        }) == 0);
  ::chmod(inner.c_str(), 0755);
  CHECK(std::distance(std::filesystem::directory_iterator(inner), {}) == 1);

  // While another process writes it: what is in the log is seen too.
  ResultStore store(file, Access::write);
  store.put_run(stored_run("new"));
  ::chmod(inner.c_str(), 0555);
  CHECK(as_other_user([&] {
          if (!ResultStore(file, Access::read).is_done("new")) throw std::runtime_error("not read");
        }) == 0);
  // A copy of the file and its log alone, where the log's index cannot be made.
  const auto copy = folder / "copy";
  std::filesystem::create_directory(copy);
  std::filesystem::copy(file, copy / "c.db");
  std::filesystem::copy(file.string() + "-wal", copy / "c.db-wal");
  ::chmod(copy.c_str(), 0555);
  CHECK(as_other_user([&] {
          const std::string error = error_of([&] { ResultStore(copy / "c.db", Access::read); });
          if (!contains(error, "newest results are in")) throw std::runtime_error(error);
        }) == 0);
  ::chmod(copy.c_str(), 0755);
  ::chmod(inner.c_str(), 0755);
}

TEST_CASE("store: what is no store says what it is instead") {
  const ScratchFolder folder;
  const auto file = folder / "file.db";
  const auto refused = [&](const std::string& reason) {
    for (const Access access : {Access::read, Access::write}) {
      const std::string before = std::filesystem::is_regular_file(file) ? read_bytes(file) : "";
      const std::string error = error_of([&] { ResultStore(file, access); });
      CAPTURE(error);
      CHECK(contains(error, "file.db"));
      CHECK(contains(error, reason));
      if (std::filesystem::is_regular_file(file)) CHECK(read_bytes(file) == before);
    }
  };
  CHECK(contains(error_of([&] { ResultStore(file, Access::read); }), "file.db: no such file"));
  std::ofstream(folder / "file") << "no folder";
  CHECK(contains(error_of([&] { ResultStore(folder / "file/such.db", Access::write); }), "cannot be made"));
  ResultStore(folder / "new/folder/such.db", Access::write);
  CHECK(std::filesystem::exists(folder / "new/folder/such.db"));
  CHECK(contains(error_of([&] { ResultStore("", Access::read); }), "expected the name of a file"));
  write_bytes(file, std::string(5000, 'x'));
  refused("is not an SQLite database");
  write_bytes(file, "short");
  refused("is not an SQLite database");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  refused("is not a file");
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  refused("is not a file");
  std::filesystem::remove(file);
  answer(file, "CREATE TABLE t (x)");
  refused("is a database of another program");
  write_bytes(file, "");
  CHECK(contains(error_of([&] { ResultStore(file, Access::read); }), "is an empty database"));

  const auto changed = [&](const std::string& sql, const std::string& reason) {
    std::filesystem::remove(file);
    small_store(file);
    REQUIRE(answer(file, sql).empty());
    refused(reason);
  };
  changed("PRAGMA application_id = 7", "is a database of another program");
  changed("PRAGMA user_version = 2", "has schema version 2; this moelab knows version 1 only");
  changed("ALTER TABLE run ADD COLUMN more", "its table 'run' is not that of a result store");
  changed("DROP VIEW result", "its view 'result' is not that of a result store");
  changed("DROP TABLE point; CREATE VIEW point AS SELECT 1", "its table 'point' is not that");
  write_bytes(file.string() + ".lock", "my own notes");
  CHECK(contains(error_of([&] { ResultStore(file, Access::write); }), "is not the lock of a result store"));
  CHECK(read_bytes(file.string() + ".lock") == "my own notes");
}

TEST_CASE("store: a schema that does more than hold results does nothing of it") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  small_store(file);
  REQUIRE(answer(file, "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM sweep; END").empty());
  ResultStore store(file, Access::write);
  store.put_run(stored_run("new"));
  CHECK(store.sweeps().size() == 1);
}

TEST_CASE("store: a truncated file is refused") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  const std::string whole = small_store(file);
  for (std::size_t size = 0; size < whole.size(); size += 512) {
    write_bytes(file, whole.substr(0, size));
    CAPTURE(size);
    CHECK(contains(error_of([&] { read_all(file); }), "results.db"));  // all pages are in use
    CHECK(contains(error_of([&] { read_all(file); }), "results.db"));  // and looking changes nothing
  }
}

TEST_CASE("store: a damaged file is read or refused, and never more") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  const std::string whole = small_store(file);
  std::mt19937 random(11);
  std::uniform_int_distribution<std::size_t> places(0, whole.size() - 1);
  std::uniform_int_distribution<int> bits(0, 7);
  std::size_t refused = 0;
  constexpr int kRounds = moelab::test::random_runs(1500);
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = whole;
    // One bit; or, every third time, some more; every other round where structure is densest.
    for (int flips = round % 3 == 0 ? 20 : 1; flips > 0; --flips) {
      const std::size_t place =
          round % 2 == 0 ? places(random) : places(random) / 4096 * 4096 + places(random) % 64;
      damaged[std::min(place, whole.size() - 1)] ^= static_cast<char>(1 << bits(random));
    }
    write_bytes(file, damaged);
    std::filesystem::remove(file.string() + "-wal");
    std::filesystem::remove(file.string() + "-shm");
    refused += error_of([&] { read_all(file); }).empty() ? 0 : 1;
    if (round % 10 == 0) error_of([&] { ResultStore(file, Access::write).put_run(stored_run("c")); });
  }
  CHECK(refused > kRounds / 10);
  CHECK(refused < kRounds);
}

TEST_CASE("store: the queries of its README answer") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  {
    ResultStore store(file, Access::write);
    store.put_sweep(stored_sweep("budgets"),
                    {stored_point(0, "8 GB", "lru", "a"), stored_point(1, "8 GB", "fifo", "b")});
    StoredRun run = stored_run("a", "0.5");
    run.result.insert(1, "\"bytes\": {\"ssd\": 64000},");
    store.put_run(run);
    store.put_run(stored_run("b", "0.25"));
  }
  const std::string readme = read_bytes(std::string(MOELAB_SOURCE_DIR) + "/sim/store/README.md");
  const std::string fence = "```sql\n";
  std::vector<std::string> queries;
  for (std::size_t at = readme.find(fence); at != std::string::npos; at = readme.find(fence, at + 1))
    queries.push_back(
        readme.substr(at + fence.size(), readme.find("```", at + fence.size()) - at - fence.size()));
  REQUIRE(queries.size() == 2);
  CHECK(row_of(file, queries[0]) == "8 GB|fifo|250.0|");  // the smaller of 0.5 s and 0.25 s, in ms
  CHECK(row_of(file, "SELECT * FROM (" + queries[1].substr(0, queries[1].find(';')) +
                         ") WHERE system = 'lru'") == "0|lru|64|");  // 64000 bytes over 1000 tokens
}

}  // namespace moelab::store_test
