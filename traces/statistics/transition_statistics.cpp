#include "traces/statistics/transition_statistics.hpp"

#include <algorithm>
#include <limits>

namespace moelab {
namespace {

/// How many of `ids` are among the k best of `scores`.
template <class Score>
std::uint32_t among_best(const std::vector<Score>& scores, std::span<const std::uint16_t> ids,
                         std::uint32_t k) {
  std::uint32_t found = 0;
  for (const std::uint16_t id : ids) {
    const Score own = scores[id];
    std::uint32_t better = 0;
    for (std::uint32_t e = 0; e < id; ++e) better += scores[e] >= own;
    for (std::uint32_t e = id + 1u; e < scores.size(); ++e) better += scores[e] > own;
    found += better < k;
  }
  return found;
}

double share(std::uint64_t hits, std::uint64_t all) {
  return all == 0 ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(hits) / static_cast<double>(all);
}

}  // namespace

TransitionStatistics::TransitionStatistics(std::uint32_t experts, std::uint32_t top_k)
    : experts_(experts),
      top_k_(top_k),
      together_(std::size_t{experts} * experts),
      uses_before_(experts),
      popularity_(experts),
      scores_(experts) {}

void TransitionStatistics::add_token(std::span<const std::uint16_t> before,
                                     std::span<const std::uint16_t> now) {
  std::fill(scores_.begin(), scores_.end(), 0.0f);
  for (const std::uint16_t e : before) {
    const float scale = 1.0f / static_cast<float>(std::max(1, uses_before_[e]));
    const std::int32_t* row = together_.data() + std::size_t{e} * experts_;
    for (std::uint32_t f = 0; f < experts_; ++f) scores_[f] += scale * static_cast<float>(row[f]);
  }
  transition_hits_ += among_best(scores_, now, top_k_);
  popularity_hits_ += among_best(popularity_, now, top_k_);
  tokens_ += 1;
  for (const std::uint16_t e : before) {
    ++uses_before_[e];
    for (const std::uint16_t f : now) ++together_[std::size_t{e} * experts_ + f];
  }
  for (const std::uint16_t f : now) ++popularity_[f];
}

double TransitionStatistics::recall() const {
  return share(transition_hits_, tokens_ * top_k_);
}
double TransitionStatistics::popularity_recall() const {
  return share(popularity_hits_, tokens_ * top_k_);
}

}  // namespace moelab
