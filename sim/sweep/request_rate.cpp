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

double arrivals_dispersion(const WorkloadConfig& w) {
  if (!w.log.empty()) return 1;
  if (w.arrivals.process == ArrivalsConfig::Process::fixed) return 0;
  return 1 / w.arrivals.burstiness;
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
  std::vector<double> residences;
  for (const RequestTimes& q : requests) {
    if (q.arrival_s > half && q.measured) ++b.came;
    if (!q.answered()) continue;
    if (q.end_s > half && q.end_s <= last) ++b.answered;
    if (q.measured) residences.push_back(q.end_s - q.started_s);
  }
  b.span_s = last - first;
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

LoadVerdict verdict_of(const std::vector<Backlog>& backlogs, double dispersion) {
  double came = 0, answered = 0;
  for (const Backlog& b : backlogs) {
    if (b.residence_s > b.span_s / 4) return LoadVerdict::unsettled;
    came += static_cast<double>(b.came);
    answered += static_cast<double>(b.answered);
  }
  const double chance = 3 * std::sqrt(dispersion * came);
  return came - answered > std::max(0.05 * came, chance) ? LoadVerdict::saturated : LoadVerdict::steady;
}

}  // namespace moelab
