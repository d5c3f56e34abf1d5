#include "policies/execution/execution_plan.hpp"

#include <algorithm>
#include <numeric>

namespace moelab {

void sort_by_score(std::span<const MissingExpert> missing, std::vector<std::uint32_t>& order) {
  order.resize(missing.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [missing](std::uint32_t a, std::uint32_t b) {
    return missing[a].score != missing[b].score ? missing[a].score > missing[b].score : a < b;
  });
}

}  // namespace moelab
