#include "sim/sweep/request_rate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/results/statistics.hpp"
#include "sim/scenario/workload_config.hpp"

namespace moelab {

std::optional<std::uint64_t> requests_at_rate(const WorkloadConfig& as_read, std::uint64_t asked) {
  if (asked > 0) return asked;
  const bool draws = as_read.log.empty() && as_read.trace_file.empty();
  if (draws && as_read.requests < kLeastRequests) return kLeastRequests;
  return std::nullopt;
}

std::uint64_t requests_to_settle(double in_service) {
  const double both_halves = 2 * kResidences * in_service;
  return std::max<std::uint64_t>(kLeastRequests, static_cast<std::uint64_t>(std::ceil(both_halves)));
}

std::optional<double> offered_rate(const WorkloadConfig& w, double drawn_at) {
  if (!w.log.empty() || !w.trace_file.empty()) return std::nullopt;
  return drawn_at;
}

std::size_t seeds_that_decide(std::size_t seeds) {
  return seeds - (seeds - 1) / 2;
}

namespace {

constexpr double kLeastResidences = 4;  // a choice; kResidences is more

/// The time in which the measured ones came, in s; the first after the last: there are none.
struct Arrivals {
  double first = std::numeric_limits<double>::infinity(), last = -first;
};
Arrivals arrivals_of(const std::vector<RequestTimes>& requests) {
  Arrivals all;
  for (const RequestTimes& q : requests) {
    if (!q.measured) continue;
    all.first = std::min(all.first, q.arrival_s);
    all.last = std::max(all.last, q.arrival_s);
  }
  return all;
}

/// Of those that `server` served; of all without one.
Backlog backlog_at(const std::vector<RequestTimes>& requests, const Arrivals& arrivals,
                   std::optional<std::uint32_t> server) {
  Backlog b;
  if (arrivals.first > arrivals.last) return b;
  const double half = (arrivals.first + arrivals.last) / 2, last = arrivals.last;
  b.half_s = last - half;
  double least_wait_s = std::numeric_limits<double>::infinity();
  std::vector<double> residences;
  for (const RequestTimes& q : requests) {
    if (server && q.server != *server) continue;
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

/// `missing`: started fewer than offered, at least; above that a standing queue is no chance.
LoadVerdict verdict(const Backlog& b, double offered, double missing) {
  if (b.residence_s > b.half_s / kLeastResidences) return LoadVerdict::unsettled;
  const bool none_answered = b.least_wait_s < 0 && b.came > 0;
  const bool stood = none_answered || b.least_wait_s > kStandingShare * b.residence_s;
  const auto started = static_cast<double>(b.started);
  const double under_way = started - static_cast<double>(b.answered);
  const bool piles_up = under_way > std::max(0.05 * started, 3 * std::sqrt(2 * started));
  return piles_up || (stood && started < offered - missing) ? LoadVerdict::saturated : LoadVerdict::steady;
}

}  // namespace

Backlog backlog_of(const std::vector<RequestTimes>& requests) {
  return backlog_at(requests, arrivals_of(requests), std::nullopt);
}

std::vector<Backlog> backlogs_of(const std::vector<RequestTimes>& requests) {
  std::set<std::uint32_t> servers;
  for (const RequestTimes& q : requests) servers.insert(q.server);
  if (servers.size() < 2) return {backlog_of(requests)};
  const Arrivals arrivals = arrivals_of(requests);
  std::vector<Backlog> backlogs;
  for (const std::uint32_t server : servers) backlogs.push_back(backlog_at(requests, arrivals, server));
  return backlogs;
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
  return verdict(b, rate ? *rate * b.half_s : static_cast<double>(b.came), 0);
}

LoadVerdict verdict_of_servers(const std::vector<Backlog>& servers, std::optional<double> rate) {
  if (servers.size() == 1) return verdict_of(servers.front(), rate);
  double all = 0, at_saturated = 0;
  bool beyond_chance = false;
  for (const Backlog& b : servers) {
    const auto came = static_cast<double>(b.came);
    const LoadVerdict one = verdict(b, came, 0);
    if (one == LoadVerdict::unsettled) return one;
    all += came;
    if (one != LoadVerdict::saturated) continue;
    at_saturated += came;
    beyond_chance = beyond_chance || verdict(b, came, 2 * std::sqrt(came)) == LoadVerdict::saturated;
  }
  return beyond_chance || at_saturated > kSaturatedShare * all ? LoadVerdict::saturated : LoadVerdict::steady;
}

LoadVerdict verdict_of_seeds(const std::vector<LoadVerdict>& runs) {
  if (std::ranges::count(runs, LoadVerdict::unsettled) > 0) return LoadVerdict::unsettled;
  const auto steady = static_cast<std::size_t>(std::ranges::count(runs, LoadVerdict::steady));
  return steady >= seeds_that_decide(runs.size()) ? LoadVerdict::steady : LoadVerdict::saturated;
}

}  // namespace moelab
