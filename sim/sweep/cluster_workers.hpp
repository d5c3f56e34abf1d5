// Workers of other machines, behind a Dask scheduler. A Python process (python/moelab/cluster.py, which this
// program carries) speaks with the cluster; it and this one exchange JSON lines. Dask finds the worker for
// each point, notices workers that are lost and gives their points to others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario_document.hpp"
#include "sim/sweep/point_workers.hpp"

namespace moelab {

struct ClusterPlace {
  std::string address;  // of the Dask scheduler, "tcp://host:8786", or its scheduler file (.json)
  std::vector<std::string> programs;  // moelab on the workers: names or paths; the first that is there
  std::string python = {};            // "": $MOELAB_PYTHON, else python3
  double connect_s = 30;              // to find the scheduler in
};

class ClusterWorkers : public PointWorkers {
 public:
  /// Throws InputError where there is no Python, no Dask, or no scheduler, with what to do.
  ClusterWorkers(const ClusterPlace& place, ChildLimits limits);
  /// Stops what still runs.
  ~ClusterWorkers() override;

  std::size_t room() const override;
  void start(std::uint64_t number, std::function<PointJob()> job) override;
  /// Throws InputError where the cluster is gone, and where a worker refuses: another version of moelab, or
  /// other data files. Outcomes that came before it are returned first.
  std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double seconds) override;

  /// Points that the cluster runs at a time, the last time it said so.
  std::size_t slots() const { return slots_; }

 private:
  class Script;
  std::vector<DataFile> data_of(const PointJob& job);
  void hear(const std::string& line);
  std::string what_went_wrong();

  std::string address_;
  ChildLimits limits_;
  std::unique_ptr<Script> script_;
  std::size_t slots_ = 0;
  bool ready_ = false;
  std::string fatal_;
  std::set<std::uint64_t> running_;
  std::map<std::string, std::string> digests_;  // of data files, by path
  std::vector<std::pair<std::uint64_t, PointOutcome>> done_;
};

}  // namespace moelab
