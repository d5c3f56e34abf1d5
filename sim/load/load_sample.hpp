// One run at one rate: what its requests met, and whether the system kept up with them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/load/service_level.hpp"
#include "sim/results/statistics.hpp"
#include "sim/run_result.hpp"

namespace moelab {

/// What a run's requests came to while they came. The half is of the time from the first arrival to the last
/// of those that are measured.
struct Backlog {
  std::uint64_t came = 0;      // in the second half
  std::uint64_t answered = 0;  // in the second half, whenever they came
  double span_s = 0;           // from the first arrival to the last
  double residence_s = 0;      // median of answered requests, from the first pass to the last token
};
Backlog backlog_of(const std::vector<RequestTimes>& requests);

/// steady: it keeps up. saturated: the queue grows for as long as requests come. unsettled: requests stay for
/// so long, or come for so short a time, that the run says nothing of what more of them would meet.
enum class LoadVerdict : std::uint8_t { steady, saturated, unsettled };
std::string to_string(LoadVerdict verdict);

/// Of runs at the same rate with other seeds, taken together. Unsettled where in one of them the median
/// residence is more than a quarter of the span. Else saturated where fewer requests were answered in the
/// second halves than came: by more than 5 % of those that came, and by more than three standard deviations
/// of their number, 3 sqrt(dispersion * came). `dispersion` of the arrivals: variance over mean of how many
/// come, 1 of a Poisson process.
LoadVerdict verdict_of(const std::vector<Backlog>& backlogs, double dispersion);

/// A run at a rate; with a warm-up or a cool-down, the measured part of it: values of measured requests, and
/// rates of what was answered in the measured seconds, whenever it came. Of no request: no values.
struct LoadSample {
  std::uint64_t requests = 0;     // measured
  std::uint64_t answered = 0;     // in the measured seconds
  std::uint64_t preemptions = 0;  // of measured requests
  double wall_s = 0;              // the measured seconds
  double tokens_per_s = 0, input_tokens_per_s = 0;
  std::array<Summary, kLatencies> latencies{};
  std::array<bool, kLatencies> known{};  // some request has that latency
  Backlog backlog;
  std::uint64_t met = 0;          // measured requests that meet all limits of the level
  std::uint64_t good = 0;         // of `answered`, those that do
  std::vector<bool> holding;      // by clause of the level
  std::vector<double> limited_s;  // what each clause limits; negative: no request has such a latency
  std::string bound_by;           // "reading weights (GPU), 81.2 % of the time"; "": nothing is counted
  std::string refusal;            // why it could not run: then nothing else is filled

  double answered_per_s() const { return wall_s > 0 ? static_cast<double>(answered) / wall_s : 0; }
  /// Of the requests answered a second: those that meet the level.
  double goodput() const { return wall_s > 0 ? static_cast<double>(good) / wall_s : 0; }
  double met_share() const {
    return requests > 0 ? static_cast<double>(met) / static_cast<double>(requests) : 0;
  }
  const Summary* of(Latency latency) const {
    const auto i = static_cast<std::size_t>(latency);
    return known[i] ? &latencies[i] : nullptr;
  }
};
LoadSample sample_of(const RunResult& result, const ServiceLevel& level);

// Between processes.
std::string pack_sample(const LoadSample& sample);
LoadSample unpack_sample(const std::string& text);

}  // namespace moelab
