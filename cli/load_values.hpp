// What the outputs of `moelab load` share: values of points, and how rates are written.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/load/load_curve.hpp"

namespace moelab::cli {

/// Four digits that count: "3.413", "0.25", "120".
std::string significant(double value);
/// "4 requests/s"
std::string rate_text(double rate);
/// "poisson", "gamma (burstiness 0.5)", "fixed", "of the log"; of a cluster "poisson at each server", "of
/// each server's log"
std::string arrivals_text(const Scenario& scenario);

/// Of points by system and rate: those of each system.
std::vector<std::span<const LoadPoint>> points_by_system(const std::vector<LoadPoint>& points);
/// Of a system's: the one with the highest rate that meets the level; nullptr where none does. Never one that
/// is saturated or unsettled.
const LoadPoint* best_point(std::span<const LoadPoint> points);

/// Means over seeds; nothing where a seed lacks it.
std::optional<double> mean_of(const LoadPoint& point, const std::function<double(const LoadSample&)>& value);
std::optional<double> latency_at(const LoadPoint& point, Latency latency, double Summary::*statistic);

}  // namespace moelab::cli
