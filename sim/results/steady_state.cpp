#include "sim/results/steady_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/results/statistics.hpp"

namespace moelab {
namespace {

constexpr std::size_t kHalf = 10;  // parts
using Parts = std::array<double, 2 * kHalf>;

/// Requests in the system, mean over each part of the time.
Parts in_system(const std::vector<RequestTimes>& requests, double begin_s, double end_s) {
  Parts parts{};
  const double width = (end_s - begin_s) / static_cast<double>(parts.size());
  for (const RequestTimes& q : requests) {
    const double from = q.arrival_s, to = q.answered() ? q.end_s : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double low = begin_s + width * static_cast<double>(i);
      parts[i] += std::max(0.0, std::min(to, low + width) - std::max(from, low)) / width;
    }
  }
  return parts;
}

double median_residence(const std::vector<RequestTimes>& requests) {
  std::vector<double> residences;
  for (const RequestTimes& q : requests)
    if (q.answered() && q.measured) residences.push_back(q.end_s - q.arrival_s);
  return summarize(std::move(residences)).p50;
}

/// What is left of the parts where the straight line through them is taken away: a drift is no scatter.
Parts around_line(const Parts& parts) {
  constexpr double middle = (2 * kHalf - 1) / 2.0;
  double sum = 0, slope = 0, squares = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double at = static_cast<double>(i) - middle;
    sum += parts[i];
    slope += at * parts[i];
    squares += at * at;
  }
  Parts rest{};
  for (std::size_t i = 0; i < parts.size(); ++i)
    rest[i] = parts[i] - sum / (2 * kHalf) - slope / squares * (static_cast<double>(i) - middle);
  return rest;
}

/// Of the difference of the halves' means.
double standard_error(const Parts& parts) {
  const Parts rest = around_line(parts);
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    squares += rest[i] * rest[i];
    if (i + 1 < rest.size()) products += rest[i] * rest[i + 1];
  }
  if (squares == 0) return 0;
  const double correlation = std::clamp(products / squares, 0.0, 0.9);
  const double variance = squares / (2 * kHalf - 2) * (1 + correlation) / (1 - correlation);
  return std::sqrt(2 * variance / kHalf);
}

}  // namespace

std::string to_string(SteadyVerdict verdict) {
  switch (verdict) {
    case SteadyVerdict::steady:
      return "steady";
    case SteadyVerdict::drifting:
      return "drifting";
    case SteadyVerdict::unsettled:
      return "unsettled";
  }
  return "";
}

SteadyState steady_state(const std::vector<RequestTimes>& requests, double begin_s, double end_s) {
  SteadyState state;
  if (!(end_s > begin_s)) return state;
  const Parts parts = in_system(requests, begin_s, end_s);
  std::array<double, 2> means{};
  for (std::size_t i = 0; i < parts.size(); ++i) means[i / kHalf] += parts[i] / kHalf;
  state.first_half = means[0];
  state.second_half = means[1];
  state.allowed = std::max(0.1 * (means[0] + means[1]) / 2, 3 * standard_error(parts));
  if (median_residence(requests) > (end_s - begin_s) / 4) return state;
  const bool drifts = std::abs(means[1] - means[0]) > state.allowed;
  state.verdict = drifts ? SteadyVerdict::drifting : SteadyVerdict::steady;
  return state;
}

}  // namespace moelab
