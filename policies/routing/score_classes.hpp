// SMoE's classes of a token's active experts (arXiv 2508.18983, sections IV-A and IV-B): with S(k+1) the
// (k+1)-th highest score of all experts of the layer, L = S(k+1), T = (1 + alpha) L and R = (1 - alpha) L,
//
//   low-score: active and L <= score < T;  top-score: the rest of the active ones
//   may stand in for a low-score one: not active and R <= score <= L
//
// policies/routing/smoe_routing.cpp says how ties and bounds are read. No (k+1)-th expert (k = experts), or
// S(k+1) <= 0: no score is low.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace moelab {

struct ScoreBounds {
  double low = 0;   // R
  double next = 0;  // L
  double top = 0;   // T

  bool is_low(double score) const { return next <= score && score < top; }
};

/// `scores`: of all experts, no NaN; `active`: k. `scratch` is memory to work in. One comparison a score but
/// for those that come among the best k + 1: k is small beside the experts.
inline ScoreBounds score_bounds(std::span<const float> scores, std::size_t active, double alpha,
                                std::vector<float>& scratch) {
  if (active >= scores.size()) return {};
  scratch.assign(active + 1, -std::numeric_limits<float>::infinity());  // the best so far, by falling score
  for (const float score : scores) {
    if (score <= scratch.back()) continue;
    std::size_t place = active;
    for (; place > 0 && score > scratch[place - 1]; --place) scratch[place] = scratch[place - 1];
    scratch[place] = score;
  }
  const double score = scratch.back();
  return {(1 - alpha) * score, score, (1 + alpha) * score};
}

}  // namespace moelab
