#include "sim/sweep/request_rate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/results/statistics.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {

std::optional<std::uint64_t> requests_at_rate(const WorkloadConfig& as_read, std::uint64_t asked) {
  if (asked > 0) return asked;
  const bool draws = as_read.log.empty() && as_read.trace_file.empty();
  if (draws && as_read.requests < kLeastRequests) return kLeastRequests;
  return std::nullopt;
}

std::optional<double> offered_rate(const WorkloadConfig& w, double drawn_at) {
  if (!w.log.empty() || !w.trace_file.empty()) return std::nullopt;
  return drawn_at;
}

std::size_t seeds_that_decide(std::size_t seeds) {
  return seeds - (seeds - 1) / 2;
}

Backlog backlog_of(const std::vector<RequestTimes>& requests) {
  Backlog b;
  if (requests.empty()) return b;
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const RequestTimes& q : requests) {
    if (!q.measured) continue;
    first = std::min(first, q.arrival_s);
    last = std::max(last, q.arrival_s);
  }
  if (first > last) return b;
  const double half = (first + last) / 2;
  b.half_s = last - half;
  double least_wait_s = std::numeric_limits<double>::infinity();
  std::vector<double> residences;
  for (const RequestTimes& q : requests) {
    const auto in_half = [&](double at) { return at > half && at <= last; };
    const double started_s = q.answered() ? q.started_s : q.arrival_s;
    const bool came = q.measured && q.arrival_s > half;
    if (came) ++b.came;
    if (in_half(started_s)) ++b.started;
    if (!q.answered()) continue;
    if (in_half(q.end_s)) ++b.answered;
    if (came) least_wait_s = std::min(least_wait_s, q.started_s - q.arrival_s);
    if (q.measured) residences.push_back(q.end_s - q.started_s);
  }
  if (!std::isinf(least_wait_s)) b.least_wait_s = least_wait_s;
  b.residence_s = summarize(std::move(residences)).p50;
  return b;
}

std::string to_string(LoadVerdict verdict) {
  switch (verdict) {
    case LoadVerdict::steady:
      return "steady";
    case LoadVerdict::saturated:
      return "saturated";
    case LoadVerdict::unsettled:
      return "unsettled";
  }
  return "";
}

LoadVerdict verdict_of(const Backlog& b, std::optional<double> rate) {
  if (b.residence_s > b.half_s / 2) return LoadVerdict::unsettled;
  const double offered = rate ? *rate * b.half_s : static_cast<double>(b.came);
  const bool none_answered = b.least_wait_s < 0 && b.came > 0;
  const bool stood = none_answered || b.least_wait_s > kStandingShare * b.residence_s;
  const auto started = static_cast<double>(b.started);
  const double under_way = started - static_cast<double>(b.answered);
  const bool piles_up = under_way > std::max(0.05 * started, 3 * std::sqrt(2 * started));
  return piles_up || (stood && started < offered) ? LoadVerdict::saturated : LoadVerdict::steady;
}

LoadVerdict verdict_of(const std::vector<Backlog>& backlogs, std::optional<double> rate) {
  std::size_t steady = 0;
  for (const Backlog& b : backlogs) {
    const LoadVerdict one = verdict_of(b, rate);
    if (one == LoadVerdict::unsettled) return one;
    steady += one == LoadVerdict::steady ? 1 : 0;
  }
  return steady >= seeds_that_decide(backlogs.size()) ? LoadVerdict::steady : LoadVerdict::saturated;
}

}  // namespace moelab
