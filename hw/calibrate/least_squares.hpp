// What measured points are fitted by: a fixed cost and a rate, a roofline, and values that do not fall.
// Errors are relative: a point of 10 us counts as much as one of 10 ms.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/curve.hpp"

namespace moelab {

struct FitQuality {
  std::vector<double> residuals;  // fitted over measured, less 1, in the order of the points
  double error = 0;               // their root mean square
};

/// seconds = intercept + amount / rate.
struct AffineFit {
  double intercept = 0;  // seconds, not negative
  double rate = 0;       // amount a second; infinite where seconds do not rise with the amount
  FitQuality quality;
};
/// nullopt unless there are two amounts at least. Amounts and seconds are above 0.
std::optional<AffineFit> fit_affine(std::span<const CurvePoint> points);

struct RooflinePoint {
  double flops, bytes, seconds;  // all above 0
};
/// seconds = launch + max(flops / peak, bytes / bandwidth).
struct RooflineFit {
  double peak = 0, bandwidth = 0;  // FLOP/s, B/s
  double launch = 0;               // seconds, not negative
  FitQuality quality;
};
/// The best of all ways to divide the points by FLOPs a byte in those that memory bounds and those that
/// arithmetic does, of which there is one at least each; where noise leaves no cost or rates above 0, of
/// those without a launch. nullopt where the points determine none: fewer than two intensities, or than three
/// points.
std::optional<RooflineFit> fit_roofline(std::span<const RooflinePoint> points);

/// The nearest values (least squares of relative changes) none of which is below the one before it: values
/// that fall become their block's mean. The last rises above the one before it by `last_rise` at least, which
/// is not above it.
struct RisingValues {
  std::vector<double> values;
  double largest_correction = 0;  // relative to what was there
};
RisingValues made_rising(std::span<const double> values, double last_rise = 0);

}  // namespace moelab
