// score-average: the expert of the least mean gate score over the last iterations leaves first (SMoE, Zhu et
// al., arXiv 2508.18983, section IV-B, "Cache eviction", Equation 3).
//
//   victim at iteration j = argmin over experts i held of
//     sum of S(i, m) for m = max(1, j - n) .. j, over j - max(1, j - n) + 1
//
// S(i, m): score of expert i in iteration m, summed over the tokens of the step, of inactive experts too:
// those are the substitutes of the smoe router. n: parameter `window`. The paper names no n; the default 3 is
// the span of its Fig. 6 (high scores foretell reuse "in the next 3 iterations"). By the equation's bounds
// n + 1 iterations count: the current one and n before it; the text says "the preceding n". The divisor is
// the same for all experts, so sums are compared. Ties: the smallest number leaves.
//
// Shield: what is used in a step does not leave in that step. Uses come one by one, so an expert may leave
// before its own use in the step is known; it then comes back, and the next one in order leaves in its stead,
// or, where all others are in use, the newcomer that came last. The outcome is that of knowing all uses
// first. A newcomer that finds all held experts in use is not kept. A prefetched expert is shielded from
// later prefetches until its step begins: "to prevent evicting an expert immediately before its use".
// The paper counts j from the start of a request; here the window runs on over requests.
//
// Sums: the iterations fall into blocks of n + 1. The window is the newest part of the last complete block
// and the current block: block_ holds sums from an iteration to the end of its complete block, newer_ the sum
// of the current block. Nothing is ever subtracted, so rounding stays that of n + 1 additions. An object's
// blocks begin at iterations that depend on its number, so a step completes the blocks of 1 object in n + 1,
// and costs O(objects) however large n is.
#include <algorithm>
#include <cassert>

#include "policies/cache/cache.hpp"
#include "policies/cache/single_pool.hpp"
#include "policies/checked_parameter.hpp"

namespace moelab {
namespace {

class ScoreAverage final : public SinglePool {
 public:
  ScoreAverage(const CacheShape& shape, std::uint32_t window)
      : SinglePool(shape),
        terms_(window + 1),
        block_(std::size_t{shape.objects} * terms_, 0),
        newer_(shape.objects, 0),
        sum_(shape.objects, 0),
        shielded_in_(shape.objects, 0),
        left_in_(shape.objects, 0) {
    candidates_.reserve(shape.objects);
    newcomers_.reserve(shape.objects);
  }

  void observe(std::span<const float> scores) override {
    assert(scores.size() == sum_.size());
    lift_shields();
    for (std::size_t object = 0; object < scores.size(); ++object) add(object, scores[object]);
    ++iterations_;
  }

  void begin_step(const CacheStep&) override { lift_shields(); }

  void use(const ExpertUse& use) override {
    uses_came_ = true;
    if (!holds(use.object)) admit(use.object);
    shielded_in_[use.object] = epoch_;
  }

  bool insert(std::uint32_t object) override {
    if (uses_came_) lift_shields();  // the layer is done
    if (!holds(object)) {
      if (full() && !evict_lowest()) return false;
      take(object);
    }
    shielded_in_[object] = epoch_;
    return true;
  }

 private:
  void add(std::size_t object, double score) {
    double* const block = &block_[object * terms_];
    const std::size_t at = (iterations_ + object) % terms_;
    block[at] = score;
    newer_[object] += score;
    if (at + 1 < terms_) {
      sum_[object] = newer_[object] + block[at + 1];
      return;
    }
    sum_[object] = newer_[object];
    newer_[object] = 0;
    for (std::size_t i = at; i-- > 0;) block[i] += block[i + 1];
  }

  void lift_shields() {
    ++epoch_;
    uses_came_ = false;
    candidates_known_ = false;
    newcomers_.clear();
  }

  void admit(std::uint32_t object) {
    const bool returns = left_in_[object] == epoch_;
    if (full() && !evict_lowest()) {
      if (!returns || newcomers_.empty()) return;
      drop(newcomers_.back());
      newcomers_.pop_back();
    }
    take(object);
    if (!returns) newcomers_.push_back(object);
  }

  /// False when all that is held is shielded.
  bool evict_lowest() {
    const auto leaves_later = [this](std::uint32_t a, std::uint32_t b) {
      return sum_[a] != sum_[b] ? sum_[a] > sum_[b] : a > b;
    };
    if (!candidates_known_) {
      candidates_.clear();
      for (std::uint32_t object = 0; object < sum_.size(); ++object)
        if (holds(object)) candidates_.push_back(object);
      std::make_heap(candidates_.begin(), candidates_.end(), leaves_later);
      candidates_known_ = true;
    }
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), leaves_later);
      const std::uint32_t victim = candidates_.back();
      candidates_.pop_back();
      if (shielded_in_[victim] == epoch_) continue;
      drop(victim);
      left_in_[victim] = epoch_;
      return true;
    }
    return false;
  }

  const std::size_t terms_;    // n + 1
  std::vector<double> block_;  // [objects, terms]: of the complete block, sums from there to its end; in the
                               // places that the current block has reached, its scores
  std::vector<double> newer_;  // [objects]: sum of the current block
  std::vector<double> sum_;    // [objects]: of the window
  std::uint64_t iterations_ = 0;
  // Shields last for an epoch: from one step to the next, or from the end of a step's uses to the next step.
  std::uint64_t epoch_ = 1;
  bool uses_came_ = false;                  // in this epoch
  std::vector<std::uint64_t> shielded_in_;  // [objects]: epoch
  std::vector<std::uint64_t> left_in_;      // [objects]: epoch
  std::vector<std::uint32_t> newcomers_;    // of this epoch's uses, in order
  // A heap of what was held at the epoch's first eviction, less what has left. What has come since is
  // shielded.
  std::vector<std::uint32_t> candidates_;
  bool candidates_known_ = false;
};

PolicyInfo score_average_info() {
  return {.name = "score-average",
          .help = "the expert of the least mean gate score over the last iterations leaves first",
          .source = "SMoE (Zhu et al. 2025, arXiv 2508.18983), section IV-B, Equation 3",
          .parameters = {{.name = "window",
                          .unit = "iterations",
                          .default_value = 3,
                          .low = 1,
                          .high = 1000,
                          .help = "n: how many iterations before the current one count with it"}}};
}

std::unique_ptr<CachePolicy> make_score_average(const CacheShape& shape, const PolicyParameters& parameters) {
  return std::make_unique<ScoreAverage>(shape, checked_count(score_average_info(), parameters, "window"));
}

}  // namespace

CachePolicyEntry score_average_entry() {
  return {.info = score_average_info(), .needs_all_scores = true, .make = make_score_average};
}

}  // namespace moelab
