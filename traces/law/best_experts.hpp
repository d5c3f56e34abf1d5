// The k largest of a few values, in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// Fills `best` with the places of the best.size() largest of `values` (at least as many), the largest first;
/// of equal ones the earlier. For k much smaller than the number of values it costs one comparison for each.
inline void best_experts(std::span<const float> values, std::span<std::uint32_t> best) {
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (found == best.size() && values[i] <= values[best[found - 1]]) continue;
    std::size_t place = found < best.size() ? found++ : found - 1;
    for (; place > 0 && values[i] > values[best[place - 1]]; --place) best[place] = best[place - 1];
    best[place] = i;
  }
}

/// The same where rows of one law follow each other: what was enough for a place among the best in the rows
/// before tells which values of this row to look at. They are looked at all if that was too much or too
/// little, so that the answer is best_experts' in any case.
class RowOfBest {
 public:
  /// As best_experts. The number of values is a multiple of 8.
  void choose(std::span<const float> values, std::span<std::uint32_t> best);

 private:
  float bar_ = 0;  // values above it are looked at
  float margin_ =
      0.5f;  // how far it is below the last of the best on average: two rows in a hundred have too few
};

}  // namespace moelab
