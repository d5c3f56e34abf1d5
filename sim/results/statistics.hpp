// The one place where percentiles and means are defined.
#pragma once

#include <vector>

namespace moelab {

struct Summary {
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

double mean(const std::vector<double>& values);  // 0 when empty
/// Linear interpolation between order statistics: the value at rank q * (n - 1) of the sorted sample.
/// `sorted` not empty.
double quantile(const std::vector<double>& sorted, double q);
/// All zero for an empty sample.
Summary summarize(std::vector<double> values);

}  // namespace moelab
