#include "hw/bench/sample_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace moelab {

namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  if (below + 1 == sorted.size()) return sorted[below];
  return std::lerp(sorted[below], sorted[below + 1], rank - static_cast<double>(below));
}

}  // namespace

SampleStatistics statistics_of(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const auto count = static_cast<double>(sorted.size());
  SampleStatistics found{sorted.size(), quantile(sorted, 0.5), quantile(sorted, 0.1), quantile(sorted, 0.9)};
  found.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  if (sorted.size() < 2) return found;
  double squares = 0;
  for (const double sample : sorted) squares += (sample - found.mean) * (sample - found.mean);
  found.variation = std::sqrt(squares / (count - 1)) / found.mean;
  return found;
}

}  // namespace moelab
