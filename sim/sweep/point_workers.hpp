// Who runs a sweep's points: processes of this machine, or others' (cluster_workers.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/child_process.hpp"
#include "sim/sweep/sweep_point.hpp"

namespace moelab {

/// How a point ended, and where.
struct PointOutcome {
  ChildOutcome child;
  std::string host;         // what the worker calls its machine
  std::string worker = {};  // its address in the cluster; "" on this machine
};

/// What this machine calls itself; "" where it does not say.
std::string host_name();

class PointWorkers {
 public:
  virtual ~PointWorkers() = default;
  /// How many more points can be taken now.
  virtual std::size_t room() const = 0;
  /// Takes a point. `job` makes what it needs, where that is wanted; it lives until the point is done. Where
  /// there is another worker than the one at address `elsewhere_than`, another runs it.
  virtual void start(std::uint64_t number, std::function<PointJob()> job,
                     const std::string& elsewhere_than = {}) = 0;
  /// Points that are done, at once where there are some, else after at most so many seconds. Throws
  /// InputError where no point can be run any more.
  virtual std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double seconds) = 0;
  /// Workers that get no point any more, each with why.
  virtual std::vector<std::string> left_out() const { return {}; }
};

/// Forks a process for each point, `jobs` at a time: nothing of one point reaches the next, and a crash is
/// one point's.
class ForkedWorkers : public PointWorkers {
 public:
  ForkedWorkers(std::size_t jobs, ChildLimits limits);
  std::size_t room() const override { return jobs_ - std::min(jobs_, running_.size()); }
  void start(std::uint64_t number, std::function<PointJob()> job,
             const std::string& elsewhere_than = {}) override;
  std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double seconds) override;

  /// Any other work, in the same way.
  void start_work(std::uint64_t number, const std::function<std::string()>& work);

 private:
  std::size_t jobs_;
  ChildLimits limits_;
  std::string host_;
  std::vector<std::pair<std::uint64_t, ChildProcess>> running_;
};

}  // namespace moelab
