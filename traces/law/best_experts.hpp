// The k largest of a few values, in order.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace moelab
