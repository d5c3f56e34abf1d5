// Workers of other machines, behind a Dask scheduler. A Python process (python/moelab/cluster.py, which this
// program carries) speaks with the cluster; it and this one exchange JSON lines. Dask finds the worker for
// each point, notices workers that are lost and gives their points to others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario_document.hpp"
#include "sim/sweep/point_exchange.hpp"

namespace moelab {

struct ClusterPlace {
  std::string address;  // of the Dask scheduler, "tcp://host:8786", or its scheduler file (.json)
  std::vector<std::string> programs;     // moelab on the workers: names or paths; the first that is there
  std::string python = {};               // "": $MOELAB_PYTHON, else python3
  double connect_s = 30;                 // to find the scheduler in
  std::function<void()> meanwhile = {};  // called a few times a second until it is found; may throw
};

class ClusterWorkers : public PointWorkers {
 public:
  /// Throws InputError where there is no Python, no Dask, or no scheduler, with what to do.
  ClusterWorkers(const ClusterPlace& place, ChildLimits limits);
  /// Stops what still runs.
  ~ClusterWorkers() override;

  std::size_t room() const override;
  void start(std::uint64_t number, std::function<PointJob()> job,
             const std::string& elsewhere_than = {}) override;
  /// An answer that does not fit its point (check_result()) is an outcome of kind `failed` that names the
  /// worker; after three such answers a worker is left out, and at once where it refuses: another version of
  /// moelab, or other data files. Throws InputError where the cluster is gone or no worker is left. Outcomes
  /// that came before it are returned first.
  std::vector<std::pair<std::uint64_t, PointOutcome>> wait(double seconds) override;

  /// Points that the cluster runs at a time, the last time it said so.
  std::size_t slots() const { return slots_; }
  std::vector<std::string> left_out() const override { return left_out_; }

 private:
  class Script;
  std::vector<DataFile> data_of(const PointJob& job);
  void hear(const std::string& line);
  void take_answer(std::uint64_t number, const std::string& worker, const std::string& answer);
  std::string what_went_wrong();

  std::string address_;
  ChildLimits limits_;
  std::unique_ptr<Script> script_;
  std::size_t slots_ = 0;
  bool ready_ = false;
  std::string fatal_;
  std::map<std::uint64_t, RemoteJob> running_;
  std::map<std::string, int> unfit_;            // answers, by worker
  std::vector<std::string> left_out_;           // workers, each with why
  std::map<std::string, std::string> digests_;  // of data files, by path
  std::vector<std::pair<std::uint64_t, PointOutcome>> done_;
};

}  // namespace moelab
