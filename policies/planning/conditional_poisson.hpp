// Which k of N experts are used in a step, as the distribution of greatest entropy that has given inclusion
// probabilities: independent draws with probabilities q_r, conditioned on k of them succeeding (ZipMoE,
// App. D; "conditional Poisson sampling" in survey statistics: Chen, Dempster, Liu: Weighted finite
// population sampling to maximize entropy, Biometrika 81(3), 1994).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moelab {

struct ConditionalPoisson {
  std::vector<double> selection;  // q_r, scaled to sum to k; any common factor on q/(1-q) gives the same law
  std::vector<double> inclusion;  // f_r that these q_r yield
  std::uint32_t k = 0;
};

/// Fits q to inclusion probabilities f (each in [0, 1], sum k up to 1e-6). Probabilities within 1e-13 of 0 or
/// 1 become exactly that; the others are first shifted, all by the same amount in log-odds, so that they sum
/// to k exactly. The fitted ones then equal these targets to 1e-12.
///
/// Method: with lambda = log(q / (1 - q)), lambda_i += w (logit f_i - logit f_i(lambda)), 0 < w <= 1. The
/// Jacobian of logit f(lambda) is D^-1 Cov, where Cov is the covariance of the k-subset's indicators and
/// D = diag(f (1 - f)): ones on the diagonal, negative elsewhere (no two experts are positively correlated),
/// rows adding up to 0 (the sum is always k). So a step multiplies the residual by a matrix with nonnegative
/// entries and rows adding up to 1: the largest residual never grows, and for w < 1 all residuals approach
/// one another geometrically, hence 0. (The paper's App. D prints the update w <- w f_i / R(k, N); the
/// algorithm it cites has w <- w f_i / f_i(w), the same step in log f instead of logit f, which crawls when
/// f_i is near 1.) f_i(lambda) comes from prefix and suffix Poisson-binomial tables, sums of positive terms
/// only: O(N k) an iteration, some tens of iterations at worst. Throws InputError should rounding keep it
/// from converging.
ConditionalPoisson fit_conditional_poisson(std::span<const double> inclusion, std::uint32_t k);

/// Alg. 2: probability of h successes, h = 0..limit, in independent draws with probabilities q.
std::vector<double> success_counts(std::span<const double> q, std::uint32_t limit);

/// Alg. 2 for every interval of ranks, each row of a common start computed when first asked for.
/// 8 (k + 1) (N - u + 1) bytes and O(N k) time for the row of start u.
class HitTable {
 public:
  HitTable(std::span<const double> selection, std::uint32_t k);
  /// Phi(h), h = 0..k, for the ranks [begin, end). Valid as long as the table.
  const double* hits(std::uint32_t begin, std::uint32_t end);

 private:
  std::vector<double> selection_;
  std::uint32_t k_;
  std::vector<std::vector<double>> rows_;
};

}  // namespace moelab
