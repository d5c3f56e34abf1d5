// The one place where percentiles, means and intervals of means are defined.
#pragma once

#include <span>
#include <vector>

namespace moelab {

struct Summary {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

double mean(const std::vector<double>& values);  // 0 when empty
/// Of the values themselves, not of what they are a sample of (NumPy's std); 0 when empty.
double standard_deviation(const std::vector<double>& values);
/// Linear interpolation between order statistics: the value at rank q * (n - 1) of the sorted sample.
/// `sorted` not empty.
double quantile(const std::vector<double>& sorted, double q);
/// All zero for an empty sample.
Summary summarize(std::vector<double> values);

/// Mean of values, such as of a figure over seeds, and half the width of its 95 % interval by Student's t;
/// both in the values' unit. One value has no interval: its half width is 0.
struct Interval {
  double mean = 0;
  double half_width = 0;
};
/// Throws std::logic_error for no values.
Interval interval95(std::span<const double> values);

}  // namespace moelab
