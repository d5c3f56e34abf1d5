#include "sim/serving/measured_range.hpp"

#include <algorithm>
#include <string>

#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {
namespace {

void check_holds_any(const Scenario& s, const MeasuredRange& range,
                     const std::vector<ServedRequest>& requests) {
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (range.holds(i, requests[i].arrival_s)) return;
  throw InputError(s.name, "workload.warm_up and cool_down leave nothing for statistics: the " +
                               std::to_string(requests.size()) + " requests come from " +
                               to_string(Seconds(requests.front().arrival_s)) + " to " +
                               to_string(Seconds(requests.back().arrival_s)));
}

}  // namespace

MeasuredRange measured_range(const Scenario& s, std::uint64_t count,
                             const std::vector<ServedRequest>* requests) {
  MeasuredRange range;
  const LeftOutEnds& out = s.workload.left_out;
  if (out.warm_up) {
    range.first = out.warm_up->requests;
    range.begin_s = out.warm_up->seconds;
  }
  if (out.cool_down && out.cool_down->seconds > 0) {
    if (requests == nullptr)
      throw InputError(s.name,
                       "workload.cool_down is a time before the last request comes, which comes when others "
                       "are answered; expected a number of requests, such as 100");
    if (!requests->empty()) range.end_s = requests->back().arrival_s - out.cool_down->seconds;
  }
  const std::uint64_t late = out.cool_down ? out.cool_down->requests : 0;
  if (out.any() && range.first + late >= count)
    throw InputError(s.name, "workload.warm_up and cool_down leave nothing for statistics: they leave out " +
                                 std::to_string(range.first + late) + " of " + std::to_string(count) +
                                 " requests");
  if (late > 0) range.last = count - late - 1;
  if (out.any() && requests != nullptr) check_holds_any(s, range, *requests);
  return range;
}

MeasuredRange measured_requests(const Scenario& s, const std::vector<ServedRequest>& requests) {
  return measured_range(s, requests.size(), s.workload.closed_loop ? nullptr : &requests);
}

void set_measured_time(const Scenario& s, Metrics& m) {
  const LeftOutEnds& out = s.workload.left_out;
  if (!out.any()) return;
  double first = m.wall_s, last = 0, latest = 0;
  for (const RequestTimes& q : m.requests) {
    latest = std::max(latest, q.arrival_s);
    if (!q.measured) continue;
    first = std::min(first, q.arrival_s);
    last = std::max(last, q.arrival_s);
  }
  MeasuredTime& time = m.measured;
  time = {.whole = false, .begin_s = 0, .end_s = m.wall_s};
  if (out.warm_up) time.begin_s = out.warm_up->requests > 0 ? first : out.warm_up->seconds;
  if (out.cool_down) time.end_s = out.cool_down->requests > 0 ? last : latest - out.cool_down->seconds;
}

}  // namespace moelab
