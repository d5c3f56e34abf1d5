// The points of a sweep: which there are, whether each can run, and running one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/sweep/sweep_file.hpp"

namespace moelab {

/// One combination of a sweep's axes.
struct SweepPoint {
  std::uint64_t number = 0;  // among all combinations, from 0; the last axis varies fastest
  Settings axes;             // what varies and its value, as written
  std::string series;        // "" where the sweep names none
  std::string system;
  Settings settings;  // of the scenario, as `moelab run --set`
};

/// The combination of a number below combinations().
SweepPoint point_of(const SweepFile& sweep, std::uint64_t number);
/// "budget = 16 GB, system = zipmoe"
std::string to_string(const SweepPoint& point);

/// Everything that a process needs to run a point: nothing of it names a configuration file.
struct PointJob {
  std::string document;  // scenario_document(), of one system
  Settings settings;     // for the record: applied already
  std::string executor;
};

/// Throws InputError where the point's scenario cannot be read.
PointJob job_of(const SweepFile& sweep, const SweepPoint& point);
/// The result as `moelab run --format json` prints it, byte for byte but for its answer. With SimGrid, once
/// in the life of a process. Throws InputError.
std::string run_point(const PointJob& job);

/// What preparing a point says of it.
struct PreparedPoint {
  bool kept = true;      // `where` holds
  std::string identity;  // of its run: run_identity()
  double work = 0;       // rows of routing times layers: for the order in which points are run
};

/// Reads and checks points without running them, one after the other.
class PointPreparer {
 public:
  explicit PointPreparer(const SweepFile& sweep) : sweep_(sweep) {}
  /// Throws InputError with everything that keeps the point from running.
  PreparedPoint prepare(const SweepPoint& point);

 private:
  struct Trace;
  const SweepFile& sweep_;
  std::vector<std::shared_ptr<Trace>> traces_;  // the last ones: points differ in little
};

}  // namespace moelab
