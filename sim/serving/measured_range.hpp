// Which of a run's requests its statistics are of.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/serving/served_request.hpp"

namespace moelab {

struct Metrics;

/// Requests by number and by arrival, both ends in it.
struct MeasuredRange {
  std::uint64_t first = 0, last = std::numeric_limits<std::uint64_t>::max();
  double begin_s = 0, end_s = std::numeric_limits<double>::infinity();

  bool holds(std::uint64_t number, double arrival_s) const {
    return number >= first && number <= last && arrival_s >= begin_s && arrival_s <= end_s;
  }
};

/// What a scenario's warm_up and cool_down leave of `count` requests. `requests`: those of a list, in order
/// of arrival; nullptr: when they come is not known before. Throws InputError where nothing is left, and for
/// a cool_down in seconds before an arrival that is not known.
MeasuredRange measured_range(const Scenario& scenario, std::uint64_t count,
                             const std::vector<ServedRequest>* requests);

/// Of requests that a list has, or that users send.
MeasuredRange measured_requests(const Scenario& scenario, const std::vector<ServedRequest>& requests);

/// Says which seconds of a run the statistics are of, once it is over: from the end of the warm-up, or the
/// arrival of its first measured request, to the begin of the cool-down, or the arrival of the last one; to
/// the run's end where there is no cool-down. Where requests come in turn, or all measured ones come at once,
/// not to the last one's arrival but to when the last of them is answered. Throws InputError where no request
/// was measured.
void set_measured_time(const Scenario& scenario, Metrics& metrics, bool in_turn);

}  // namespace moelab
