#include "traces/law/normal.hpp"

#include <cmath>

#include "traces/portable_math.hpp"

namespace moelab {

Normal::Normal() {
  double f = portable_exp(-0.5 * kTail * kTail);
  edge_[0] = kArea / f;
  edge_[1] = kTail;
  for (std::size_t i = 2; i < kBoxes; ++i) {
    edge_[i] = std::sqrt(-2 * portable_log(kArea / edge_[i - 1] + f));
    f = portable_exp(-0.5 * edge_[i] * edge_[i]);
  }
  edge_[kBoxes] = 0;
  for (std::size_t i = 0; i <= kBoxes; ++i) height_[i] = portable_exp(-0.5 * edge_[i] * edge_[i]);
  for (std::size_t i = 0; i < kBoxes; ++i) inner_[i] = edge_[i + 1] / edge_[i];
}

const Normal& Normal::instance() {
  static const Normal normal;
  return normal;
}

/// In the part of a box that the curve cuts through: whether a random height at x is below the curve.
bool Normal::under_curve(Random& random, std::size_t box, double x) const {
  const double height = height_[box] + random.uniform() * (height_[box + 1] - height_[box]);
  return height < portable_exp(-0.5 * x * x);
}

// Marsaglia's method for the tail (1964).
double Normal::tail(Random& random, bool negative) {
  for (;;) {
    const double x = portable_log(1 - random.uniform()) / kTail;
    const double y = portable_log(1 - random.uniform());
    if (-2 * y >= x * x) return negative ? x - kTail : kTail - x;
  }
}

}  // namespace moelab
