#include "models/curve.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moelab {

std::string Curve::problem_with(const std::vector<CurvePoint>& points) {
  if (points.empty()) return "a curve needs at least one point";
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].amount) || !std::isfinite(points[i].seconds) || points[i].amount < 0 ||
        points[i].seconds < 0)
      return "point " + std::to_string(i + 1) + " is negative or not finite";
    if (i > 0 && points[i].amount <= points[i - 1].amount) return "amounts must rise from point to point";
    if (i > 0 && points[i].seconds < points[i - 1].seconds) return "times must not fall as amounts rise";
  }
  return "";
}

Curve::Curve(std::vector<CurvePoint> points) : points_(std::move(points)) {
  assert(problem_with(points_).empty());
}

Curve Curve::affine(double latency_s, double amount_per_second) {
  return Curve({{0, latency_s}, {amount_per_second, latency_s + 1}});
}

double Curve::operator()(double amount) const {
  if (points_.size() == 1 || amount <= points_.front().amount) return points_.front().seconds;
  const auto above = std::lower_bound(points_.begin() + 1, points_.end() - 1, amount,
                                      [](const CurvePoint& p, double a) { return p.amount < a; });
  const CurvePoint& b = *above;
  const CurvePoint& a = *(above - 1);
  return a.seconds + (b.seconds - a.seconds) * (amount - a.amount) / (b.amount - a.amount);
}

}  // namespace moelab
