// SMoE's classes of a token's active experts (arXiv 2508.18983, sections IV-A and IV-B): with S(k+1) the
// (k+1)-th highest score of all experts of the layer, L = S(k+1), T = (1 + alpha) L and R = (1 - alpha) L,
//
//   low-score: active and L <= score < T;  top-score: the rest of the active ones
//   may stand in for a low-score one: not active and R <= score <= L
//
// policies/routing/smoe_routing.cpp says how ties and bounds are read. No (k+1)-th expert (k = experts), or
// S(k+1) <= 0: no score is low.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

namespace moelab {

struct ScoreBounds {
  double low = 0;   // R
  double next = 0;  // L
  double top = 0;   // T

  bool is_low(double score) const { return next <= score && score < top; }
};

/// `scores`: of all experts, no NaN; `active`: k. `scratch` is memory to work in.
inline ScoreBounds score_bounds(std::span<const float> scores, std::size_t active, double alpha,
                                std::vector<float>& scratch) {
  if (active >= scores.size()) return {};
  scratch.assign(scores.begin(), scores.end());
  const auto next = scratch.begin() + static_cast<std::ptrdiff_t>(active);
  std::nth_element(scratch.begin(), next, scratch.end(), std::greater<>());
  const double score = *next;
  return {(1 - alpha) * score, score, (1 + alpha) * score};
}

}  // namespace moelab
