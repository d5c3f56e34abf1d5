// What a measurement's samples say.
#pragma once

#include <cstddef>
#include <span>

namespace moelab {

struct SampleStatistics {
  std::size_t count = 0;
  double median = 0, p10 = 0, p90 = 0;
  double mean = 0;
  double variation =
      0;  // coefficient of variation: standard deviation (of n - 1) over mean; 0 for one sample
};

/// All zero where there are no samples. Percentiles interpolate linearly between order statistics: the value
/// at rank q (n - 1), as everywhere in results.
SampleStatistics statistics_of(std::span<const double> samples);

/// A variation above which a figure is not to be called good.
inline constexpr double kNoisyVariation = 0.05;

}  // namespace moelab
