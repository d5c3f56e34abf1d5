// Runs at a request rate, as `moelab load` and `moelab tune workload.arrivals_per_s` both ask for them: how
// many requests a run has, whether it kept up with them, and which rate seeds that differ come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

struct WorkloadConfig;

/// Of a run of drawn requests: of fewer, half of which come in the second half, chance decides too much.
inline constexpr std::uint32_t kLeastRequests = 1000;

/// Runs at a rate, each with a seed of its own, where no other number is asked for.
inline constexpr std::uint64_t kRateSeeds = 3;

/// What workload.requests is set to: what was asked for (0: nothing), else kLeastRequests where the scenario
/// draws fewer; nothing where its own number stands, or its log's or trace's.
std::optional<std::uint64_t> requests_at_rate(const WorkloadConfig& as_read, std::uint64_t asked);
/// Variance over mean of how many requests come in a long time.
double arrivals_dispersion(const WorkloadConfig& workload);
/// Of so many seeds, those that must keep up and meet what is asked at a rate: the median of their highest
/// rates (of an even number the lower one of the middle) is the highest rate at which so many do.
std::size_t seeds_that_decide(std::size_t seeds);

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

}  // namespace moelab
