// Damaged stores: damage is found, and what is whole is saved into a new store. Other programs' locks.
#include <sqlite3.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <random>

#include "sim/store/result_store.hpp"
#include "sim/store/store_repair.hpp"
#include "tests/random_runs.hpp"
#include "tests/sim/store_cases.hpp"
#include "tests/traces/trace_files.hpp"

namespace moelab::store_repair_test {
namespace {

using namespace moelab::test;
using Access = ResultStore::Access;

constexpr std::size_t kPage = 4096;  // SQLite's own choice
constexpr std::uint64_t kRuns = 6;

/// The run of a point: of several pages, which hold nothing else.
StoredRun long_run(std::uint64_t number) {
  StoredRun run = stored_run("run " + std::to_string(number));
  run.result = result_text("0.125", std::string(2 * kPage, static_cast<char>('a' + number)));
  return run;
}

/// Two sweeps; one point of the second was not run.
std::string whole_store(const std::filesystem::path& file) {
  {
    ResultStore store(file, Access::write);
    std::vector<StoredPoint> points;
    for (std::uint64_t i = 0; i < kRuns; ++i)
      points.push_back(stored_point(i, std::to_string(i) + " GB", "lru", "run " + std::to_string(i)));
    store.put_sweep(stored_sweep("one"), points);
    store.put_sweep(stored_sweep("two"), {points[0], stored_point(1, "9 GB", "lru", "not run")});
    for (std::uint64_t i = 0; i < kRuns; ++i) store.put_run(long_run(i));
    store.check_whole();
  }
  return read_bytes(file);
}

void run_sql(const std::filesystem::path& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

std::string damage_of(const std::filesystem::path& file) {
  return error_of([&] { ResultStore(file, Access::read).check_whole(); });
}

}  // namespace

TEST_CASE("store: every damaged page is found, and a repair saves all but what lies on it") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  const std::string whole = whole_store(file);
  REQUIRE(whole.size() % kPage == 0);
  std::uint64_t saved = 0, pages = 0;
  for (std::size_t page = 1; page < whole.size() / kPage; ++page) {
    std::string damaged = whole;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * kPage), kPage, '\xaa');
    write_bytes(file, damaged);
    std::filesystem::remove(copy);
    CAPTURE(page);
    CHECK(damage_of(file).find("is damaged: ") != std::string::npos);
    const StoreRepair repaired = repair_store(file, copy);
    CHECK(read_bytes(file) == damaged);
    CHECK(damage_of(copy).empty());
    const ResultStore store(copy, Access::read);
    std::uint64_t runs = 0;
    for (std::uint64_t i = 0; i < kRuns; ++i)
      if (const auto run = store.run("run " + std::to_string(i), true)) {
        CHECK(run->result == long_run(i).result);
        ++runs;
      }
    CHECK(repaired.runs == runs);
    CHECK((repaired.lost_more || repaired.runs + repaired.lost_runs == kRuns));
    CHECK((repaired.lost_more || repaired.sweeps == 2));
    CHECK((repaired.lost_more || repaired.points + repaired.lost_points == kRuns + 2));
    saved += runs;
    ++pages;
  }
  // A page of a result is of one run, and of some pages nothing but lists of what is elsewhere hangs.
  CHECK(saved >= (kRuns - 1) * (pages - 4));
}

TEST_CASE("store: a repair saves what is before the end of a file that was cut, and results that are JSON") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  const std::string whole = whole_store(file);
  write_bytes(file, whole.substr(0, whole.size() - 100));
  CHECK(damage_of(file).find("is damaged: ") != std::string::npos);
  CHECK(repair_store(file, copy).runs >= kRuns - 1);
  CHECK(error_of([&] { repair_store(file, copy); }).find("is there already") != std::string::npos);

  std::string no_json = whole;
  no_json[no_json.find(std::string(1000, 'c')) + 7] = '"';  // within the text of run 2
  write_bytes(file, no_json);
  CHECK(damage_of(file).find("the result of run run 2 is no JSON") != std::string::npos);
  std::filesystem::remove(copy);
  const StoreRepair repaired = repair_store(file, copy);
  CHECK(repaired.runs == kRuns - 1);
  CHECK(repaired.lost_runs == 1);
  CHECK(repaired.points == kRuns + 2);
  CHECK_FALSE(repaired.lost_more);
  CHECK_FALSE(ResultStore(copy, Access::read).is_done("run 2"));
  CHECK(error_of([&] { repair_store(folder / "none.db", folder / "x.db"); }).find("no file") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "x.db"));
}

TEST_CASE("store: a repair takes no result that is no object, and goes on behind it") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  for (const char* odd : {"[]", "3", "null", "'text'", "x'5b5d'"}) {
    CAPTURE(odd);
    std::filesystem::remove(file);
    std::filesystem::remove(copy);
    whole_store(file);
    run_sql(file, std::string("UPDATE run SET result = ") +
                      (odd[0] == '\'' || odd[0] == 'x' ? odd : "'" + std::string(odd) + "'") +
                      " WHERE identity = 'run 1'");
    CHECK(damage_of(file).find("the result of run run 1 is no JSON object") != std::string::npos);
    const StoreRepair repaired = repair_store(file, copy);
    CHECK(repaired.runs == kRuns - 1);
    CHECK(repaired.lost_runs == 1);
    CHECK(damage_of(copy).empty());
  }
}

TEST_CASE("store: a repair whose copy cannot be written leaves nothing of it") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  whole_store(file);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{16 * kPage, before.rlim_max};  // of each file: the tables, but not all runs
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  const std::string error = error_of([&] { repair_store(file, copy); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(error.starts_with(copy.string()));
  for (const char* part : {"", "-wal", "-shm", ".lock"})
    CHECK_FALSE(std::filesystem::exists(copy.string() + part));
}

TEST_CASE("store: a repair leaves the damaged store and its log as they are") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  const auto begun = folder / "begun.db";
  const auto log_of = [](const std::filesystem::path& store) { return store.string() + "-wal"; };
  {
    ResultStore store(begun, Access::write);
    store.put_run(long_run(0));
    // As a kill leaves it: with a log that was not moved into the database.
    for (const auto& [from, to] : {std::pair(begun.string(), file.string()), {log_of(begun), log_of(file)}})
      std::filesystem::copy_file(from, to);
  }
  const std::string before = read_bytes(file), log = read_bytes(log_of(file));
  REQUIRE(log.size() > kPage);
  CHECK(repair_store(file, copy).runs == 1);
  CHECK(read_bytes(file) == before);
  CHECK(read_bytes(log_of(file)) == log);
  write_bytes(file, "");
  CHECK(error_of([&] { repair_store(file, folder / "x.db"); }).find("is an empty file") != std::string::npos);
  CHECK(read_bytes(log_of(file)) == log);
}

TEST_CASE("store: a repair saves rows that are in the log alone") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db", begun = folder / "begun.db";
  std::vector<StoredPoint> points;
  for (std::uint64_t i = 0; i < 8000; ++i) points.push_back(stored_point(i, "1 GB", "lru", "not run"));
  {
    ResultStore store(begun, Access::write);
    store.put_sweep(stored_sweep("one"), points);
    for (const char* part : {"", "-wal"})  // as a kill leaves it
      std::filesystem::copy_file(begun.string() + part, file.string() + part);
  }
  REQUIRE(std::filesystem::file_size(file) < 8 * points.size());  // no 8 bytes for each
  const StoreRepair repaired = repair_store(file, copy);
  CHECK(repaired.points == points.size());
  CHECK(repaired.lost_points == 0);
  CHECK_FALSE(repaired.lost_more);
}

TEST_CASE("store: whatever the damage, a repair makes a whole store or says that it cannot") {
  const ScratchFolder folder;
  const auto file = folder / "results.db", copy = folder / "copy.db";
  const std::string whole = whole_store(file);
  std::mt19937 random(5);
  int saved = 0;
  for (int round = 0; round < random_runs(60); ++round) {
    std::string damaged = whole;
    for (int flips = 0; flips < 20; ++flips)
      damaged[random() % damaged.size() / (round % 2 == 0 ? 1 : 8)] ^= static_cast<char>(1 << random() % 8);
    write_bytes(file, damaged);
    std::filesystem::remove(copy);
    CAPTURE(round);
    const std::string error = error_of([&] { repair_store(file, copy); });
    if (error.empty()) {
      CHECK(damage_of(copy).empty());
      ++saved;
      continue;
    }
    // Only for the first page, with the list of the tables, and nothing is left behind.
    CHECK(damaged.substr(0, kPage) != whole.substr(0, kPage));
    CHECK(error.starts_with(file.string()));
    CHECK_FALSE(std::filesystem::exists(copy));
  }
  CHECK(saved >= random_runs(6, 1));
}

TEST_CASE("store: what another program keeps locked is waited for as long as the caller says") {
  const ScratchFolder folder;
  const auto file = folder / "results.db";
  whole_store(file);
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &other) == SQLITE_OK);
  const auto run = [&](const char* sql) {
    REQUIRE(sqlite3_exec(other, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  };
  run("BEGIN IMMEDIATE");
  int asked = 0, until = 3;
  double last = -1;
  ResultStore store(file, Access::write, [&](double seconds) {
    CHECK(seconds > last);
    last = seconds;
    return ++asked < until;
  });
  CHECK(error_of([&] { store.put_run(stored_run("new")); }).find("another program keeps it locked") !=
        std::string::npos);
  CHECK(asked == 3);
  run("COMMIT");
  store.put_run(stored_run("new"));
  CHECK(asked == 3);
  sqlite3_close(other);
}

}  // namespace moelab::store_repair_test
