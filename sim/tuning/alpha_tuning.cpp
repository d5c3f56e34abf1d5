#include "sim/tuning/alpha_tuning.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "models/input_error.hpp"

namespace moelab {
namespace {

using Coefficients = std::vector<double>;  // by power, from 0

double value_at(const Coefficients& p, double x) {
  double value = 0;
  for (std::size_t i = p.size(); i-- > 0;) value = value * x + p[i];
  return value;
}

Coefficients derivative_of(const Coefficients& p) {
  Coefficients derivative;
  for (std::size_t i = 1; i < p.size(); ++i) derivative.push_back(static_cast<double>(i) * p[i]);
  return derivative;
}

/// Where p turns from positive to not positive between low, where it is, and high, where it is not: the first
/// double after the change.
double crossing(const Coefficients& p, double low, double high) {
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (value_at(p, middle) > 0 ? low : high) = middle;
  }
}

/// low, high, and between them, in ascending order, the places where p may turn: the roots of its derivative.
/// Those lie between the derivative's own turning points, one where it changes its sign.
std::vector<double> turning_points(const Coefficients& p, double low, double high) {
  std::vector<double> points{low};
  if (p.size() > 2) {
    Coefficients slope = derivative_of(p);
    const std::vector<double> pieces = turning_points(slope, low, high);
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      const double left = value_at(slope, pieces[i]), right = value_at(slope, pieces[i + 1]);
      if ((left > 0) == (right > 0)) continue;
      Coefficients falling = slope;
      if (left <= 0)
        for (double& c : falling) c = -c;
      points.push_back(crossing(falling, pieces[i], pieces[i + 1]));
    }
  }
  points.push_back(high);
  return points;
}

void check_points(std::span<const AlphaPoint> points, std::size_t degree) {
  std::set<double> alphas;
  for (const AlphaPoint& point : points) {
    if (!std::isfinite(point.alpha) || !std::isfinite(point.tpot_s))
      throw InputError("", "alpha " + std::to_string(point.alpha) + " took " + std::to_string(point.tpot_s) +
                               " s a token: a polynomial is fitted to finite values only");
    alphas.insert(point.alpha);
  }
  if (alphas.size() <= degree)
    throw InputError("", "a polynomial of degree " + std::to_string(degree) + " takes " +
                             std::to_string(degree + 1) + " different alphas at least, found " +
                             std::to_string(alphas.size()));
}

/// Adds what of `residuals` is along the orthogonal polynomial, given by its values and coefficients, to the
/// fit, and takes it out of the residuals.
void project(const Coefficients& values, const Coefficients& basis, Coefficients& residuals,
             Coefficients& fitted) {
  double along = 0, norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    along += residuals[i] * values[i];
    norm += values[i] * values[i];
  }
  const double factor = along / norm;
  for (std::size_t i = 0; i < values.size(); ++i) residuals[i] -= factor * values[i];
  for (std::size_t i = 0; i < basis.size(); ++i) fitted[i] += factor * basis[i];
}

}  // namespace

double PolynomialFit::operator()(double alpha) const {
  return value_at(coefficients, alpha);
}

// Forsythe, Generation and use of orthogonal polynomials for data-fitting, J. SIAM 5(2), 1957: the
// polynomials
//   p(0) = 1,  p(j+1) = (x - a(j)) p(j) - b(j) p(j-1),
//   a(j) = sum x p(j)^2 / sum p(j)^2,  b(j) = sum p(j)^2 / sum p(j-1)^2
// are orthogonal over the points, so each coefficient is a projection and there is no system to solve.
PolynomialFit fit_polynomial(std::span<const AlphaPoint> points, std::size_t degree) {
  check_points(points, degree);
  const std::size_t n = points.size();
  Coefficients residuals;
  for (const AlphaPoint& point : points) residuals.push_back(point.tpot_s);
  PolynomialFit fit{Coefficients(degree + 1, 0.0)};
  Coefficients basis{1}, basis_before{};
  Coefficients values(n, 1.0), values_before(n, 0.0);
  double norm_before = 1;
  for (std::size_t j = 0;; ++j) {
    project(values, basis, residuals, fit.coefficients);
    if (j == degree) break;
    double norm = 0, moment = 0;
    for (std::size_t i = 0; i < n; ++i) {
      norm += values[i] * values[i];
      moment += points[i].alpha * values[i] * values[i];
    }
    const double a = moment / norm, b = j == 0 ? 0 : norm / norm_before;
    Coefficients next(j + 2, 0.0);
    for (std::size_t i = 0; i <= j; ++i) {
      next[i + 1] += basis[i];
      next[i] -= a * basis[i];
    }
    for (std::size_t i = 0; i < basis_before.size(); ++i) next[i] -= b * basis_before[i];
    for (std::size_t i = 0; i < n; ++i) {
      const double value = (points[i].alpha - a) * values[i] - b * values_before[i];
      values_before[i] = values[i];
      values[i] = value;
    }
    basis_before = std::exchange(basis, std::move(next));
    norm_before = norm;
  }
  double squares = 0;
  for (const AlphaPoint& point : points) {
    const double residual = point.tpot_s - fit(point.alpha);
    squares += residual * residual;
    fit.largest_residual_s = std::max(fit.largest_residual_s, std::abs(residual));
  }
  fit.rms_residual_s = std::sqrt(squares / static_cast<double>(n));
  return fit;
}

AlphaChoice choose_alpha(std::span<const AlphaPoint> points, std::size_t degree, double budget_s,
                         double max_alpha) {
  assert(max_alpha >= 0);
  if (!(budget_s > 0) || !std::isfinite(budget_s))
    throw InputError("", "the TPOT budget is " + std::to_string(budget_s) + " s, expected a time above 0");
  AlphaChoice choice{fit_polynomial(points, degree)};
  Coefficients over = choice.fit.coefficients;  // T - R
  over[0] -= budget_s;
  const std::vector<double> turns = turning_points(over, 0, max_alpha);
  const auto choose = [&](BudgetOutcome outcome, double alpha) {
    choice.outcome = outcome;
    choice.alpha = alpha;
    choice.tpot_s = choice.fit(alpha);
    return choice;
  };
  if (value_at(over, 0) <= 0) return choose(BudgetOutcome::met_without, 0);
  for (std::size_t i = 0; i + 1 < turns.size(); ++i)
    if (value_at(over, turns[i + 1]) <= 0)
      return choose(BudgetOutcome::met, crossing(over, turns[i], turns[i + 1]));
  const auto less = [&](double a, double b) { return value_at(over, a) < value_at(over, b); };
  return choose(BudgetOutcome::not_met, *std::min_element(turns.begin(), turns.end(), less));
}

}  // namespace moelab
