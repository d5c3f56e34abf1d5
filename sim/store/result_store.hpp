// Results of sweeps in one SQLite file: what was asked, every point, every finished run. One process writes
// at a time; any number read meanwhile (write-ahead log), with this program or with any SQLite tool.
//
// Schema 1 (application_id 0x4d4f454c, "MOEL"; user_version 1); sim/store/README.md has it column by column:
//   sweep  id, name (unique), question, file (its text), created (UTC, ISO 8601), version
//   point  sweep, number (from 0), axes (JSON object: name -> value as written), series, system,
//          settings (JSON list of [path, value]), run (identity; see run.identity)
//   run    identity (sim/scenario/scenario_document.hpp: run_identity), status ("done", "failed", "timeout",
//          "memory"), error, scenario, system, executor, seed (decimal digits: it has 64 bits), version,
//          started (UTC), wall_s, cpu_s, peak_bytes (of the process that ran it), host, result (JSON, as
//          `moelab run` writes it; NULL unless done), and of the result: ttft_s, tpot_s, tpot_p50_s,
//          tpot_p90_s, tpot_p99_s, end_to_end_s, throughput_tokens_per_s, tokens, requests, simulated_s
//   result (a view) every point with its sweep's name and its run's columns but the JSON
// Points of several sweeps that are the same run share it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moelab {

enum class RunStatus : std::uint8_t { done, failed, timeout, memory };
std::string to_string(RunStatus status);

/// A point of a sweep, as the store keeps it.
struct StoredPoint {
  std::uint64_t number = 0;
  std::vector<std::pair<std::string, std::string>> axes;  // name, value as written; each name once
  std::string series;                                     // "" where the sweep names none
  std::string system;
  std::vector<std::pair<std::string, std::string>> settings;  // as `moelab run --set`
  std::string run;                                            // identity
};

struct StoredSweep {
  std::string name, question, file, created, version;
  std::uint64_t points = 0;  // how many it has; put_sweep counts them itself
};

/// A run that came to an end, one way or another.
struct StoredRun {
  std::string identity;
  RunStatus status = RunStatus::done;
  std::string error;  // of one that is not done
  std::string scenario, system, executor, version;
  std::uint64_t seed = 0;
  std::string started;  // UTC
  double wall_s = 0, cpu_s = 0;
  std::uint64_t peak_bytes = 0;
  std::string host;
  std::string result;  // JSON; "" unless done
};

/// Columns of a run that are taken from its result, and where they stand in it.
struct MetricColumn {
  const char* name;  // the last part is its unit; tokens and requests are counts
  const char* path;  // JSON pointer
};
inline constexpr std::array<MetricColumn, 10> kMetricColumns = {{
    {"ttft_s", "/metrics/ttft_s"},  // mean over requests, as are end_to_end_s and tpot_s
    {"tpot_s", "/metrics/tpot_s/mean"},
    {"tpot_p50_s", "/metrics/tpot_s/p50"},
    {"tpot_p90_s", "/metrics/tpot_s/p90"},
    {"tpot_p99_s", "/metrics/tpot_s/p99"},
    {"end_to_end_s", "/metrics/end_to_end_s"},
    {"throughput_tokens_per_s", "/metrics/throughput_tokens_per_s"},
    {"tokens", "/metrics/tokens"},
    {"requests", "/metrics/requests"},
    {"simulated_s", "/metrics/wall_s"},
}};
/// In the order of kMetricColumns; nothing where the result has null or no such member.
using StoredMetrics = std::array<std::optional<double>, kMetricColumns.size()>;

/// A point, and what came of it.
struct StoredOutcome {
  StoredPoint point;
  std::optional<StoredRun> run;  // without the result's JSON; nothing where it did not run yet
  StoredMetrics metrics;
};

/// How far a sweep is, in points.
struct SweepCounts {
  std::uint64_t done = 0, failed = 0, missing = 0;  // failed: also those over a limit of time or memory
};

/// Asked from time to time while another program keeps a store locked, with the seconds waited so far:
/// whether to wait on. Must not throw.
using LockWait = std::function<bool(double)>;

class ResultStore {
 public:
  enum class Access : std::uint8_t { read, write };
  /// Opens a store; with `write`, makes it, and its folder, where there is none and keeps other writers out
  /// while this object lives (a lock on FILE.lock, gone with the process however it ends). Throws InputError:
  /// no such file, no SQLite database, one of another program or schema version, another process that writes
  /// (its number is named), no permission, a full disk.
  ///
  /// A store on a read-only file system can be read once its writer has closed it. A forked child must not
  /// use the store of its parent; it does not hold the lock, and its copy of this object may be destroyed.
  ///
  /// Where a program that is not moelab keeps the file locked, now or later, `waits` is asked how long to
  /// wait; without it, 10 seconds.
  ResultStore(const std::filesystem::path& file, Access access, LockWait waits = {});
  /// The last one to close leaves one file: what stands in FILE-wal is moved to FILE.
  ~ResultStore();
  ResultStore(const ResultStore&) = delete;
  ResultStore& operator=(const ResultStore&) = delete;

  // Writing. Each is one transaction on disk when it returns. Throws InputError when it cannot be (full
  // disk, text that is not UTF-8, a result that is no JSON); what was there before stays readable.

  /// Enters a sweep with all its points, in the place of an earlier one of that name. Its runs stay.
  void put_sweep(const StoredSweep& sweep, const std::vector<StoredPoint>& points);
  /// Enters a finished run, in the place of an earlier one of that identity. Throws RefusedValue where it is
  /// this run that cannot be entered: its result is no JSON object or too large, a number of it is none.
  void put_run(const StoredRun& run);

  /// Throws InputError where anything of the file is damaged as far as that can be seen: pages, indexes,
  /// rows, and results that are no JSON objects. Reads all of it.
  void check_whole() const;

  // Reading. Each sees one state of the store, whatever is written meanwhile. Throws InputError where the
  // file is damaged.

  std::vector<StoredSweep> sweeps() const;  // by name
  /// The sweep of that name; where `name` is empty, the only one. Throws InputError where there is none, or
  /// several to choose from; `option` is what the reader chooses with ("--sweep").
  StoredSweep sweep(const std::string& name, const std::string& option) const;
  std::vector<StoredPoint> points(const std::string& sweep) const;      // by number
  std::vector<StoredOutcome> outcomes(const std::string& sweep) const;  // by number
  SweepCounts counts(const std::string& sweep) const;
  /// Without results' JSON unless `with_result`. Nothing where there is no such run.
  std::optional<StoredRun> run(const std::string& identity, bool with_result) const;
  /// Whether a run is there and done.
  bool is_done(const std::string& identity) const;
  /// Mean processor seconds of the finished runs of a scenario's system; nothing where there are none.
  std::optional<double> mean_cpu_s(const std::string& scenario, const std::string& system) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moelab
