// A point on another machine: what goes there and what comes back, each as one JSON text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/scenario/scenario_document.hpp"
#include "sim/sweep/point_workers.hpp"

namespace moelab {

/// A job for a moelab elsewhere, which must be of this version and find the same data files at their paths.
struct RemoteJob {
  PointJob job;
  std::vector<DataFile> data;
  ChildLimits limits;
};

/// {"version", "scenario", "settings", "executor", "data": [{"path", "digest"}], "limits": {"time_s",
/// "memory_bytes"}}
std::string pack_job(const RemoteJob& job);
/// Throws InputError for a text that is no job, and for one of another version of moelab.
RemoteJob unpack_job(const std::string& text);

/// Throws InputError where a data file is missing here, or is another one than where the job was made.
void check_data(const RemoteJob& job);
/// Runs the job in a process of its own, within its limits.
PointOutcome run_job(const RemoteJob& job);

/// {"status": "done|failed|timeout|memory", "text": the result or what went wrong, "host", "wall_s", "cpu_s",
/// "peak_bytes"}
std::string pack_outcome(const PointOutcome& outcome);
/// Of what went wrong with a point as many bytes are kept: two screens of text.
inline constexpr std::size_t kMostFailureBytes = 4096;
/// Throws InputError for a text that is no outcome: also for times that are below 0, and for what is larger
/// or nests deeper than any result. Of what went wrong kMostFailureBytes are kept, of the host's name 255
/// bytes.
PointOutcome unpack_outcome(const std::string& text);
/// Throws InputError where a result is none of this job: where scenario, system, seed, executor, version or
/// data files are others, it is not written as this program writes results, or its metrics cannot be (below
/// 0, percentiles that fall, tokens that are not throughput times time; where a warm-up or cool-down is left
/// out, fewer than that of the part that is measured), and for what is larger or nests deeper than any
/// result.
void check_result(const RemoteJob& job, const std::string& result);

}  // namespace moelab
