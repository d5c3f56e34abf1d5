#include "sim/results/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>

namespace moelab {
namespace {

/// Quantile 0.975 of Student's t. Up to 30 degrees of freedom NIST/SEMATECH e-Handbook, table 1.3.6.7.2;
/// beyond, where it is off by less than 1e-5, the expansion around the normal's (Abramowitz and
/// Stegun, 26.7.5).
double t_quantile(std::size_t freedom) {
  static constexpr std::array<double, 30> kQuantiles = {
      12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
      2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (freedom <= kQuantiles.size()) return kQuantiles[freedom - 1];
  constexpr double z = 1.959963985, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  const auto n = static_cast<double>(freedom);
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

}  // namespace

double mean(const std::vector<double>& values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

double quantile(const std::vector<double>& sorted, double q) {
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - static_cast<double>(below));
}

Summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {mean(values), quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.95),
          quantile(values, 0.99)};
}

Interval interval95(std::span<const double> values) {
  if (values.empty()) throw std::logic_error("an interval of no values");
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const double middle = sum / n;
  for (const double v : values) squares += (v - middle) * (v - middle);
  if (values.size() == 1) return {middle, 0};
  return {middle, t_quantile(values.size() - 1) * std::sqrt(squares / (n - 1) / n)};
}

}  // namespace moelab
