// Normal random numbers that are the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "traces/random.hpp"

namespace moelab {

/// Standard normal numbers by Doornik's form of the ziggurat (ZIGNOR: "An improved ziggurat method to
/// generate normal random samples", 2005): 128 boxes of one area, 98.8 % of the draws cost one
/// multiplication.
class Normal {
 public:
  double draw(Random& random) const {
    for (;;) {
      const std::uint64_t bits = random.next();
      const std::size_t box = bits & (kBoxes - 1);
      const double u = static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * 0x1p-52;  // [-1, 1)
      if (u < inner_[box] && -u < inner_[box]) return u * edge_[box];
      if (box == 0) return tail(random, u < 0);
      if (const double x = u * edge_[box]; under_curve(random, box, x)) return x;
    }
  }

  /// The table is made once.
  static const Normal& instance();

 private:
  static constexpr std::size_t kBoxes = 128;
  static constexpr double kTail = 3.442619855899;       // where the tail begins
  static constexpr double kArea = 9.91256303526217e-3;  // of each box, under exp(-x^2 / 2)

  Normal();
  static double tail(Random& random, bool negative);
  bool under_curve(Random& random, std::size_t box, double x) const;

  std::array<double, kBoxes + 1> height_{};  // of the curve at the edges
  std::array<double, kBoxes + 1> edge_{};  // right edges of the boxes, falling; the first stands for the tail
  std::array<double, kBoxes> inner_{};     // share of a box's width that lies under the curve at all heights
};

}  // namespace moelab
