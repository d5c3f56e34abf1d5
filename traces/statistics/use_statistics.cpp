#include "traces/statistics/use_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace moelab {
namespace {

constexpr double kLn2 = 0.69314718055994531;

double quotient(double a, std::uint64_t b) {
  return b == 0 ? kNoStatistic : a / static_cast<double>(b);
}

std::uint64_t sum(std::span<const std::uint64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

double bias_times_uses(std::span<const std::uint64_t> uses) {
  const auto used = std::count_if(uses.begin(), uses.end(), [](std::uint64_t n) { return n > 0; });
  return std::max(0.0, static_cast<double>(used) - 1) / (2 * kLn2);
}

}  // namespace

double top_quarter_share(std::span<const std::uint64_t> counts) {
  std::vector<std::uint64_t> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const std::uint64_t top = sum(std::span(sorted).first((sorted.size() + 3) / 4));
  return quotient(static_cast<double>(top), sum(sorted));
}

double entropy_bits(std::span<const std::uint64_t> counts) {
  const auto all = static_cast<double>(sum(counts));
  double entropy = 0;
  for (const std::uint64_t count : counts)
    if (count > 0) entropy -= static_cast<double>(count) / all * std::log2(static_cast<double>(count) / all);
  return entropy;
}

UseStatistics::UseStatistics(std::uint32_t experts, std::uint32_t top_k)
    : top_k_(top_k), uses_(experts), last_(experts) {}

void UseStatistics::begin_request() {
  begin_ = place_;
  open_ = {};
}

// An expert counts in a window if it was last used before the window's first token; in the overlap with the
// token before, if it was last used there.
void UseStatistics::add_token(std::span<const std::uint16_t> ids) {
  const std::uint64_t in_request = place_ - begin_;
  std::array<std::uint64_t, kWindows.size()> first;  // places of the windows' first tokens
  for (std::size_t w = 0; w < kWindows.size(); ++w) first[w] = place_ - (in_request & (kWindows[w] - 1));
  for (const std::uint16_t expert : ids) {
    const std::uint64_t last = last_[expert];
    ++uses_[expert];
    if (in_request > 0) reused_ += last == place_;
    for (std::size_t w = 0; w < kWindows.size(); ++w) open_[w] += last <= first[w];
    last_[expert] = place_ + 1;
  }
  pairs_ += in_request > 0;
  ++tokens_;
  ++place_;
  for (std::size_t w = 0; w < kWindows.size(); ++w) {
    if (((in_request + 1) & (kWindows[w] - 1)) != 0) continue;
    ++windows_[w];
    found_[w] += open_[w];
    open_[w] = 0;
  }
}

double UseStatistics::top_quarter() const {
  return top_quarter_share(uses_);
}

double UseStatistics::entropy() const {
  return tokens_ == 0 ? kNoStatistic : entropy_bits(uses_);
}

double UseStatistics::reuse() const {
  return quotient(static_cast<double>(reused_), pairs_ * top_k_);
}

double UseStatistics::independent_reuse() const {
  double squares = 0;
  for (const std::uint64_t n : uses_) squares += static_cast<double>(n) * static_cast<double>(n);
  const auto tokens = static_cast<double>(tokens_);
  return tokens_ == 0 ? kNoStatistic : squares / (tokens * tokens * top_k_);
}

double UseStatistics::distinct(std::size_t i) const {
  return quotient(static_cast<double>(found_[i]), windows_[i]);
}

void GroupDivergence::add_group(std::span<const std::uint64_t> uses) {
  for (std::size_t e = 0; e < uses.size(); ++e) all_[e] += uses[e];
  within_ += static_cast<double>(sum(uses)) * entropy_bits(uses);
  within_bias_ += bias_times_uses(uses);
}

double GroupDivergence::bits() const {
  const std::uint64_t uses = sum(all_);
  return uses == 0 ? kNoStatistic : std::max(0.0, entropy_bits(all_) - within_ / static_cast<double>(uses));
}

double GroupDivergence::chance_bits() const {
  return quotient(std::max(0.0, within_bias_ - bias_times_uses(all_)), sum(all_));
}

}  // namespace moelab
