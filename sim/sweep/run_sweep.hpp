// Running a sweep into a store: every point is checked before the first one runs; what the store has already
// is not run again; each result is on disk before the next point takes its place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/store/result_store.hpp"
#include "sim/sweep/point_workers.hpp"
#include "sim/sweep/sweep_file.hpp"

namespace moelab {

/// A sweep's points that `where` keeps, checked.
struct CheckedSweep {
  std::vector<StoredPoint> points;         // by number, from 0 without gaps; `run` is set
  std::vector<double> work;                // of each: PreparedPoint::work
  std::vector<std::uint64_t> combination;  // of each: its number among all combinations
};

struct SweepProgress {
  std::uint64_t done = 0, failed = 0, all = 0;  // runs of this sweep; those that were there before count
  std::uint64_t ran = 0;                        // in this call
  double elapsed_s = 0, left_s = 0;             // left: 0 as long as nothing is known
};

/// Prepares all points in `jobs` processes. Throws InputError with what is wrong, point by point (each
/// distinct problem once), or where no point is left. `progress` hears how many were looked at, once a second
/// and after each signal; it may throw.
CheckedSweep check_sweep(const SweepFile& sweep, std::size_t jobs,
                         const std::function<void(std::uint64_t)>& progress = {});

struct SweepOptions {
  bool fail_fast = false;   // stop at the first point that fails
  bool again = false;       // run what the store has already, too
  double verify_share = 0;  // of the runs, 0 to 1: run a second time, elsewhere where there is another worker
  std::function<void(const SweepProgress&)> progress;
  const std::atomic<bool>* stop = nullptr;  // set from outside: finish what is written, drop what runs
};

struct SweepSummary {
  std::uint64_t points = 0, runs = 0;  // of the sweep; points that are the same run share it
  std::uint64_t there = 0;             // runs the store had
  std::uint64_t done = 0, failed = 0;  // in this call
  std::uint64_t verified = 0;          // of `done`: two runs gave the same bytes
  bool stopped = false;
  double elapsed_s = 0;            // of this call
  double points_s = 0, cpu_s = 0;  // of its points: from start to end, and on processors
  std::uint64_t dropped = 0;       // points of an earlier sweep of this name that this one has not
  std::string earlier_version;     // of the moelab that ran it, where it is another; else empty
  struct Failure {
    std::string point;  // its axes
    StoredRun run;      // without a result
  };
  std::vector<Failure> failures;
  std::vector<std::string> left_out;  // workers that got no point any more, each with why
};

/// Runs what is missing, longest first, and enters it. Same results for any workers. A run whose second run
/// gives other bytes, or none, has failed, and so has one that the store refuses. Throws InputError where the
/// store cannot be written.
SweepSummary run_sweep(const SweepFile& sweep, const CheckedSweep& checked, ResultStore& store,
                       PointWorkers& workers, const SweepOptions& options = {});

}  // namespace moelab
