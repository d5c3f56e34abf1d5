// A measured curve: seconds over an amount (bytes, elements, tokens), linear between its points.
#pragma once

#include <string>
#include <vector>

namespace moelab {

struct CurvePoint {
  double amount;  // bytes, elements or tokens
  double seconds;
  bool operator==(const CurvePoint&) const = default;
};

/// Piecewise linear in the amount itself: on kernel and transfer tables that interpolates to 2-4 %,
/// logarithmic axes to 12-14 %. Below the first point the first value holds (a fixed cost); beyond the last
/// the last segment's slope goes on.
class Curve {
 public:
  Curve() = default;
  /// `points` by strictly rising amount, seconds finite, >= 0 and not falling.
  explicit Curve(std::vector<CurvePoint> points);
  /// Latency plus amount over rate, as a curve of two points.
  static Curve affine(double latency_s, double amount_per_second);

  double operator()(double amount) const;
  bool empty() const { return points_.empty(); }
  const std::vector<CurvePoint>& points() const { return points_; }
  /// Why these points make no curve, or "".
  static std::string problem_with(const std::vector<CurvePoint>& points);
  bool operator==(const Curve&) const = default;

 private:
  std::vector<CurvePoint> points_;
};

}  // namespace moelab
