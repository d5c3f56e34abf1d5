// Inverting the law: from what tokens choose back to their logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

/// Pairs of tokens' logit noise, drawn once: everything that is fitted by comparing with a measured figure is
/// compared on the same numbers, so that figures are smooth functions of the parameters.
class LogitSample {
 public:
  /// `tokens` pairs of `experts` standard normal numbers each.
  LogitSample(std::uint32_t experts, std::uint32_t tokens, std::uint64_t seed);

  /// Biases (mean 0) for which expert e is among the `k` best of bias + noise for a share `shares[e]` of the
  /// tokens; shares add up to k. Shares below half a token in the sample count as that.
  std::vector<double> bias(std::span<const double> shares, std::uint32_t k) const;
  /// Mean share of the k best that two tokens have in common, by their logits' correlation:
  /// kCorrelations values, at 0, 1 / (kCorrelations - 1), ... 1.
  std::vector<double> overlaps(std::span<const double> bias, std::uint32_t k) const;
  /// The correlation at which the overlap is as given; 0 to 1.
  static double correlation(std::span<const double> overlaps, double overlap);
  /// Mean gaps of the logits between ranks r and r + 1 of the k best.
  std::vector<double> gaps(std::span<const double> bias, std::uint32_t k) const;

  static constexpr std::size_t kCorrelations = 21;

 private:
  std::uint32_t experts_, tokens_;
  std::vector<float> first_, second_;  // [tokens, experts]
};

/// x >= 0 that minimises sum_i weight_i (y_i - sum_j a_ij x_j)^2; `a` row-major, y.size() rows.
std::vector<double> non_negative_least_squares(std::span<const double> a, std::span<const double> y,
                                               std::span<const double> weight);

}  // namespace moelab
