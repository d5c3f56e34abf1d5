// Where a figure meets a condition, and where it is best, over places 0 .. last: few are asked for, several
// at a time.
//
// Both searches begin with places spread evenly over all, the ends among them, which show whether the curve
// is what they count on: one that changes once (bisection), or rises and then falls (golden section).
//
//   threshold   between neighbours of which one meets the condition and one does not, halve until they are
//               next to each other, or noise leaves open which side of the limit both are on
//   best        around the best of them, probe the larger gap at (3 - sqrt 5) / 2 of it (Kiefer, Sequential
//               minimax search for a maximum, 1953) until both gaps are one place
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace moelab {

/// Whether the condition holds at a place, and whether that is more than noise.
struct GoalSide {
  bool holds = false;
  bool sure = true;
};

/// Neighbouring places where the condition holds: it was asked for at both ends, and holds at all places
/// between them that were asked for.
struct GoalRange {
  std::size_t first = 0, last = 0;
  bool operator==(const GoalRange&) const = default;
};

struct ThresholdFound {
  std::vector<GoalRange> ranges;  // rising; empty: it holds nowhere that was looked at
  std::size_t changes = 0;        // from one side to the other, along the places that were asked for
  bool noise = false;             // it stopped where noise leaves the side open
  std::map<std::size_t, GoalSide> asked;
};

struct BestFound {
  std::size_t place = 0;
  double value = 0;
  bool unimodal = true;  // what was asked for rises, then falls
};

/// `ask` answers for places in the order of the question; it is never asked twice for one. `points` >= 2.
using AskSides = std::function<std::vector<GoalSide>(const std::vector<std::size_t>&)>;
/// The ranges of which one of the points, both ends among them, or a place of `also` is a part.
ThresholdFound find_threshold(std::size_t last, std::size_t points, const AskSides& ask,
                              const std::vector<std::size_t>& also = {});

/// Larger is better; nothing: worse than any value. Nothing where no place that is asked for has a value.
/// With noise, values of a place no larger than `e` in magnitude, what it finds on a curve with slopes of at
/// least one a place is, without the noise, within about eight `e` of the best.
using AskValues = std::function<std::vector<std::optional<double>>(const std::vector<std::size_t>&)>;
std::optional<BestFound> find_best(std::size_t last, std::size_t points, const AskValues& ask);

}  // namespace moelab
