// hybrimoe: the expert of the least priority leaves, a moving average of its scores among the best p (MRS,
// minus recent score; HybriMoE, Zhong et al., DAC 2025, arXiv 2504.05897).
//
//   each iteration:  S(e) = alpha * TopP(s)(e) + (1 - alpha) * S(e)   for all experts e of the layer
//   victim:          argmin of S over the experts held
//
// s: the router's scores of this iteration, of inactive experts too. TopP(s)(e) is s(e) for the p best-scored
// experts and 0 for the others. S is 0 at first.
//
// Source: the code, ktransformers/operators/experts.py of PKU-SEC-Lab/HybriMoE@0f6e78b, class
// KScoreAwareCache (formula, alpha 0.5 and p 12, which is twice the 6 experts that DeepSeek's models choose)
// and class KExpertsCache (places a layer; whatever is loaded, on demand or ahead, is kept, and displaces the
// victim). The paper itself was not at hand. p is `p_per_choice` times the experts that a token chooses.
//
// Deviations:
// - The code looks at the scores of a step's first token. Here s is the mean of all, so that a prompt or a
//   larger batch weighs as much as one token: the step's sums over their total, which for softmax gates is
//   just that.
// - The code has no shield: an expert may leave for one that is loaded for the same step. So it is here, once
//   the step is over; the best-scored p of a step have the newest share of S, and seldom are the least.
// - The code starts with the first experts of each layer in memory. Here memory is empty at first, as in the
//   other caches that change.
// Ties, which the code leaves to its library: of equal scores the smaller number is among the p best; of
// equal priorities the smaller number leaves.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "policies/cache/cache.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class HybrimoeCache final : public SinglePool {
 public:
  HybrimoeCache(const CacheShape& shape, double alpha, std::uint32_t best)
      : SinglePool(shape), alpha_(alpha), best_(std::min(best, shape.objects)), priority_(shape.objects, 0) {
    order_.reserve(shape.objects);
  }

  void observe(std::span<const float> scores) override {
    assert(scores.size() == priority_.size());
    for (double& priority : priority_) priority *= 1 - alpha_;
    const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
    if (!(total > 0)) return;
    order_.resize(scores.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::nth_element(order_.begin(), order_.begin() + best_, order_.end(),
                     [scores](std::uint32_t a, std::uint32_t b) {
                       return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                     });
    for (std::uint32_t i = 0; i < best_; ++i) priority_[order_[i]] += alpha_ * (scores[order_[i]] / total);
  }

  void use(const ExpertUse& use) override { insert(use.object); }

  bool insert(std::uint32_t object) override {
    if (holds(object)) return true;
    if (places() == 0) return false;
    if (full()) drop(victim());
    take(object);
    return true;
  }

 private:
  std::uint32_t victim() const {
    std::uint32_t least = 0;
    while (!holds(least)) ++least;
    for (std::uint32_t object = least + 1; object < priority_.size(); ++object)
      if (holds(object) && priority_[object] < priority_[least]) least = object;
    return least;
  }

  const double alpha_;
  const std::uint32_t best_;      // p
  std::vector<double> priority_;  // [objects]: S
  std::vector<std::uint32_t> order_;
};

PolicyInfo hybrimoe_cache_info() {
  return {.name = "hybrimoe",
          .help = "the expert of the least moving average of its best gate scores leaves first",
          .source = "HybriMoE (Zhong et al., DAC 2025, arXiv 2504.05897): MRS, as in its code",
          .parameters = {{.name = "alpha",
                          .unit = "",
                          .default_value = 0.5,
                          .low = 0,
                          .high = 1,
                          .help = "weight of the newest scores in the moving average"},
                         {.name = "p_per_choice",
                          .unit = "",
                          .default_value = 2,
                          .low = 1,
                          .high = 1000,
                          .help = "how many experts' scores count, for each one that a token chooses"}}};
}

std::unique_ptr<CachePolicy> make_hybrimoe_cache(const CacheShape& shape,
                                                 const PolicyParameters& parameters) {
  const PolicyInfo info = hybrimoe_cache_info();
  const double best = checked_parameter(info, parameters, "p_per_choice") * shape.top_k;
  return std::make_unique<HybrimoeCache>(
      shape, checked_parameter(info, parameters, "alpha"),
      static_cast<std::uint32_t>(std::min(best, static_cast<double>(shape.objects))));
}

}  // namespace

CachePolicyEntry hybrimoe_cache_entry() {
  return {.info = hybrimoe_cache_info(), .needs_all_scores = true, .make = make_hybrimoe_cache};
}

}  // namespace moelab
