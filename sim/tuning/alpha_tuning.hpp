// The smallest substitution threshold that meets a TPOT budget (SMoE, Zhu et al., arXiv 2508.18983, section
// V-C, Equation 5):
//
//   min over alpha of A(alpha), the loss of accuracy,  such that T(alpha) <= R, the TPOT budget
//
// A is taken to rise with alpha, so the smallest alpha that meets the budget is the answer; T is
// "approximated by fitting a low-degree polynomial to the empirical relation" between alpha and measured
// TPOT.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace moelab {

/// What a run at this alpha took for an output token, in seconds.
struct AlphaPoint {
  double alpha = 0;
  double tpot_s = 0;
};

/// A polynomial fitted by least squares.
struct PolynomialFit {
  std::vector<double> coefficients{};  // by power of alpha, from 0
  double rms_residual_s = 0;           // of the points
  double largest_residual_s = 0;

  double operator()(double alpha) const;
};

enum class BudgetOutcome {
  met_without,  // by the fit, alpha = 0 is within the budget: nothing need be substituted
  met,
  not_met  // by the fit, no alpha up to the largest allowed is within the budget
};

struct AlphaChoice {
  PolynomialFit fit{};
  BudgetOutcome outcome = BudgetOutcome::not_met;
  double alpha = 0;   // the smallest within the budget; where it is not met, the one of the least T
  double tpot_s = 0;  // T(alpha) by the fit
};

/// Fits a polynomial of this degree. Throws InputError where there are fewer different alphas than
/// coefficients (degree + 1), or a value is not finite.
PolynomialFit fit_polynomial(std::span<const AlphaPoint> points, std::size_t degree);

/// The answer for a budget, within 0 .. max_alpha. `max_alpha` >= 0. Throws as fit_polynomial() does, and for
/// a budget that is not a positive number.
AlphaChoice choose_alpha(std::span<const AlphaPoint> points, std::size_t degree, double budget_s,
                         double max_alpha);

}  // namespace moelab
