// Which orders the paper reports, and whether they come out of a set of points.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/smoe/smoe_runs.hpp"

namespace moelab::smoe {

/// TPOT reduction of SMoE against the fastest of the paper's baselines.
double gain(const Point& point);
/// The same against the fastest of all rivals.
double gain_over_all(const Point& point);
/// Mean over the settings at a batch size.
double mean_gain(const std::vector<Point>& points, int batch, double (*of)(const Point&) = gain);
/// The point of a setting.
const Point& at(const std::vector<Point>& points, const char* setting, int batch);
/// Change of TPOT that step 1 .. 4 of the ablation brings, against the step before.
double tpot_change(const Point& point, std::size_t step);
double hit_change(const Point& point, std::size_t step);
/// Mean over the settings at batch 1, where the paper's ablation was made.
double mean_change(const std::vector<Point>& points, std::size_t step,
                   double (*change)(const Point&, std::size_t));

/// An order, held against every point that it speaks of.
struct Order {
  std::string claim{};
  int holds = 0, of = 0;
  std::string figures{};
};
std::vector<Order> orders(const std::vector<Point>& points);

std::string percent(double share, int digits = 1);
std::string milliseconds(double seconds);

}  // namespace moelab::smoe
