#include "cli/load_values.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace moelab::cli {

std::string significant(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string rate_text(double rate) {
  return significant(rate) + (rate == 1 ? " request/s" : " requests/s");
}

namespace {

std::string arrivals_text(const std::vector<ServerLoad>& users) {
  const auto of_log = [](const ServerLoad& load) { return !load.log.empty(); };
  const auto drawn = [](const ServerLoad& load) { return !load.phases.empty() && load.log.empty(); };
  if (!std::ranges::any_of(users, of_log)) return "poisson at each server";
  return std::ranges::any_of(users, drawn) ? "poisson, or of a log, at each server" : "of each server's log";
}

}  // namespace

std::string arrivals_text(const Scenario& s) {
  const WorkloadConfig& w = s.workload;
  if (s.cluster) return arrivals_text(s.cluster->loads);
  if (!w.log.empty()) return "of the log";
  switch (w.arrivals.process) {
    case ArrivalsConfig::Process::poisson:
      return "poisson";
    case ArrivalsConfig::Process::gamma:
      return "gamma (burstiness " + significant(w.arrivals.burstiness) + ")";
    case ArrivalsConfig::Process::fixed:
      return "fixed";
  }
  return "";
}

std::vector<std::span<const LoadPoint>> points_by_system(const std::vector<LoadPoint>& points) {
  std::vector<std::span<const LoadPoint>> all;
  for (std::size_t first = 0; first < points.size();) {
    std::size_t end = first;
    while (end < points.size() && points[end].system == points[first].system) ++end;
    all.push_back(std::span(points).subspan(first, end - first));
    first = end;
  }
  return all;
}

const LoadPoint* best_point(std::span<const LoadPoint> points) {
  const LoadPoint* best = nullptr;
  for (const LoadPoint& point : points)
    if (point.meets_level && (best == nullptr || point.rate > best->rate)) best = &point;
  return best;
}

std::optional<double> mean_of(const LoadPoint& point, const std::function<double(const LoadSample&)>& value) {
  return mean_over_seeds(point, [&](const LoadSample& s) { return std::optional(value(s)); });
}

std::optional<double> latency_at(const LoadPoint& point, Latency latency, double Summary::*statistic) {
  return mean_over_seeds(point, [&](const LoadSample& s) -> std::optional<double> {
    const Summary* const summary = s.of(latency);
    return summary == nullptr ? std::nullopt : std::optional(summary->*statistic);
  });
}

}  // namespace moelab::cli
