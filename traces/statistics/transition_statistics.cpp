#include "traces/statistics/transition_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace moelab {
namespace {

// Experts in one go; rows are filled up to a multiple with counts of 0, which are never better.
constexpr std::size_t kTogether = 16;

/// How many of `now` are among the k best of scores that follow from `before`. Written for the vectoriser:
/// no branch, neighbours, a multiple of what goes into an instruction.
[[gnu::always_inline]] inline std::size_t count_foretold(const TransitionCounts& counts,
                                                         std::span<const std::uint16_t> before,
                                                         std::span<const std::uint16_t> now,
                                                         std::span<float> scores) {
  const auto width = static_cast<std::int32_t>(scores.size() / kTogether * kTogether);
  float* const score = scores.data();
  std::fill(score, score + width, 0.0f);
  for (const std::uint16_t e : before) {
    const float scale = 1.0f / static_cast<float>(std::max(1, counts.before[e]));
    const std::int32_t* row = counts.together.data() + e * scores.size();
    for (std::int32_t f = 0; f < width; ++f) score[f] += scale * static_cast<float>(row[f]);
  }
  std::size_t found = 0;
  for (const std::int32_t id : now) {
    // Scores are not negative, so they compare like their bits. Equal ones are better if their id is smaller:
    // above the own bits less 1.
    const auto own = std::bit_cast<std::int32_t>(score[id]);
    std::int32_t better = 0;
    for (std::int32_t f = 0; f < width; ++f)
      better += std::bit_cast<std::int32_t>(score[f]) > own - (f < id ? 1 : 0) ? 1 : 0;
    found += static_cast<std::size_t>(better) < now.size();
  }
  return found;
}

std::size_t count_foretold_anywhere(const TransitionCounts& counts, std::span<const std::uint16_t> before,
                                    std::span<const std::uint16_t> now, std::span<float> scores) {
  return count_foretold(counts, before, now, scores);
}

#ifdef __x86_64__
// The same in wider instructions, which the compiler may not use everywhere; the same sums, bit by bit.
[[gnu::target("avx2")]] std::size_t count_foretold_avx2(const TransitionCounts& counts,
                                                        std::span<const std::uint16_t> before,
                                                        std::span<const std::uint16_t> now,
                                                        std::span<float> scores) {
  return count_foretold(counts, before, now, scores);
}
#endif

auto foretold_counter() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return count_foretold_avx2;
#endif
  return count_foretold_anywhere;
}

double share(std::uint64_t hits, std::uint64_t all) {
  return all == 0 ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(hits) / static_cast<double>(all);
}

}  // namespace

TransitionStatistics::TransitionStatistics(std::uint32_t experts, std::uint32_t top_k)
    : top_k_(top_k),
      count_foretold_(foretold_counter()),
      popularity_(experts),
      scores_((experts + kTogether - 1) / kTogether * kTogether) {
  counts_.together.resize(experts * scores_.size());
  counts_.before.resize(experts);
}

void TransitionStatistics::add_token(std::span<const std::uint16_t> before,
                                     std::span<const std::uint16_t> now) {
  assert(now.size() == top_k_);
  transition_hits_ += count_foretold_(counts_, before, now, scores_);
  for (const std::uint16_t f : now) popularity_hits_ += popularity_.place_of(f) < top_k_;
  tokens_ += 1;
  for (const std::uint16_t e : before) {
    ++counts_.before[e];
    std::int32_t* row = counts_.together.data() + e * scores_.size();
    for (const std::uint16_t f : now) ++row[f];
  }
  for (const std::uint16_t f : now) popularity_.use(f);
}

double TransitionStatistics::recall() const {
  return share(transition_hits_, tokens_ * top_k_);
}
double TransitionStatistics::popularity_recall() const {
  return share(popularity_hits_, tokens_ * top_k_);
}

}  // namespace moelab
