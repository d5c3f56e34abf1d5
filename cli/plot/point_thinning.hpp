// The points of a series in pixels, and fewer of them where there are more than can be told apart.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/plot/svg_chart.hpp"

namespace moelab::plot {

/// A point in pixels, y downwards. A gap has the y NaN; without a band, low and high are NaN.
struct Spot {
  std::size_t index = 0;  // of the point in its series
  double x = 0;
  double y = 0;
  double low = 0;
  double high = 0;
  bool gap() const { return y != y; }
};

/// All spots if there are at most 2000. Else, of a line or steps: the first, the last and the extremes (of y,
/// low and high) of each run of points in one column of pixels, and the gaps. Of dots and bars: the extremes
/// of each column, and of dots one in each square of two by two pixels. Order is kept.
std::vector<Spot> thinned(std::vector<Spot> spots, Mark mark);

}  // namespace moelab::plot
