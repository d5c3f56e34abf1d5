#include "sim/serving/measured_range.hpp"

#include <algorithm>
#include <string>

#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {
namespace {

[[noreturn]] void refuse_range(const Scenario& s, std::size_t count, double first_s, double last_s) {
  throw InputError(s.name, "workload.warm_up and cool_down leave nothing for statistics: the " +
                               std::to_string(count) + " requests come from " + to_string(Seconds(first_s)) +
                               " to " + to_string(Seconds(last_s)));
}

void check_holds_any(const Scenario& s, const MeasuredRange& range,
                     const std::vector<ServedRequest>& requests) {
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (range.holds(i, requests[i].arrival_s)) return;
  refuse_range(s, requests.size(), requests.front().arrival_s, requests.back().arrival_s);
}

/// When requests come and are answered: the first and last arrival of all; of the measured ones the same, and
/// the last answer.
struct Moments {
  double earliest = std::numeric_limits<double>::infinity(), latest = 0;
  double first = std::numeric_limits<double>::infinity(), last = 0, answer = 0;
};
Moments moments_of(const std::vector<RequestTimes>& requests) {
  Moments at;
  for (const RequestTimes& q : requests) {
    at.earliest = std::min(at.earliest, q.arrival_s);
    at.latest = std::max(at.latest, q.arrival_s);
    if (!q.measured) continue;
    at.first = std::min(at.first, q.arrival_s);
    at.last = std::max(at.last, q.arrival_s);
    at.answer = std::max(at.answer, q.end_s);
  }
  return at;
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
  const bool by_answers = s.workload.closed_loop || has_conversations(s.workload);
  return measured_range(s, requests.size(), by_answers ? nullptr : &requests);
}

void set_measured_time(const Scenario& s, Metrics& m, bool in_turn) {
  const LeftOutEnds& out = s.workload.left_out;
  if (!out.any()) return;
  const Moments at = moments_of(m.requests);
  if (at.first > at.last) refuse_range(s, m.requests.size(), std::min(at.earliest, at.latest), at.latest);
  MeasuredTime& time = m.measured;
  time = {.whole = false, .begin_s = 0, .end_s = m.wall_s};
  if (out.warm_up) time.begin_s = out.warm_up->requests > 0 ? at.first : out.warm_up->seconds;
  if (!out.cool_down) return;
  const bool to_answer = in_turn || at.last <= time.begin_s;
  if (out.cool_down->seconds > 0)
    time.end_s = at.latest - out.cool_down->seconds;
  else
    time.end_s = to_answer ? at.answer : at.last;
}

}  // namespace moelab
