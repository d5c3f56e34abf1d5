// Whether what a run's statistics are of was a steady state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

/// steady: as many requests were in the system in the second half of the measured time as in the first.
/// drifting: their number rose or fell. unsettled: requests stay for so long that the time says nothing of
/// it.
enum class SteadyVerdict : std::uint8_t { steady, drifting, unsettled };
std::string to_string(SteadyVerdict verdict);

/// Requests that had come and were not answered, mean over time in each half of the measured time.
struct SteadyState {
  SteadyVerdict verdict = SteadyVerdict::unsettled;
  double first_half = 0, second_half = 0;
  double allowed = 0;  // a difference of the two that is no drift
};

/// Unsettled where the median residence of requests is more than a quarter of the time from `begin_s` to
/// `end_s`. Else drifting where the halves' means differ by more than a tenth of their mean and by more than
/// three standard errors. These come of the means of 20 equal parts of the time (batch means; Law, Simulation
/// Modeling and Analysis, section 9.5.3) and what they scatter around the straight line through them: twice
/// their variance, over 10 parts, times (1 + r) / (1 - r) with the correlation r of one part with the next, 0
/// to 0.9. Residence is from arrival to answer here, whatever a request waits for; `moelab load`, which looks
/// for saturation (load_sample.hpp), counts it from the start of serving.
SteadyState steady_state(const std::vector<RequestTimes>& requests, double begin_s, double end_s);

}  // namespace moelab
