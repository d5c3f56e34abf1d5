#include "policies/planning/conditional_poisson.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr double kCertain = 1e-13;    // nearer than this to 0 or 1: exactly that
constexpr double kAttained = 1e-12;   // residual at which the fit is done
constexpr double kAcceptable = 1e-9;  // residual at which a fit that ran out of iterations still counts
constexpr std::uint32_t kIterations = 1000;

double logit(double p) {
  return std::log(p / (1 - p));
}
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// One more draw with success probability q (failure probability `fail`): Phi(h), h = 0..limit, in place.
void add_draw(double* phi, std::uint32_t limit, double q, double fail) {
  for (std::uint32_t h = limit; h > 0; --h) phi[h] = phi[h] * fail + phi[h - 1] * q;
  phi[0] *= fail;
}

/// Adds the one amount to all log-odds that makes the probabilities sum to k, 0 < k < n: Newton's iteration
/// kept inside a bracket.
void shift_to_sum(std::vector<double>& log_odds, double k) {
  const auto [low_odds, high_odds] = std::minmax_element(log_odds.begin(), log_odds.end());
  const double even = logit(k / static_cast<double>(log_odds.size()));
  double low = even - *high_odds, high = even - *low_odds;
  double shift = std::clamp(0.0, low, high);
  for (int i = 0; i < 200; ++i) {
    double sum = 0, slope = 0;
    for (const double x : log_odds) {
      const double p = logistic(x + shift);
      sum += p;
      slope += p * logistic(-x - shift);
    }
    (sum < k ? low : high) = shift;
    double next = shift + (k - sum) / slope;
    if (!(next >= low && next <= high)) next = low + (high - low) / 2;
    const double change = std::abs(next - shift);
    shift = next;
    if (change <= 1e-15 * (1 + std::abs(shift))) break;
  }
  for (double& x : log_odds) x += shift;
}

/// log-odds of being among the k, for draws with the given log-odds of success.
class ConditionalLogOdds {
 public:
  ConditionalLogOdds(std::size_t n, std::uint32_t k)
      : n_(n), k_(k), width_(k + std::size_t{1}), before_((n + 1) * width_), after_((n + 1) * width_) {}

  void compute(const std::vector<double>& log_odds, std::vector<double>& conditional) {
    before_[0] = 1;
    for (std::size_t i = 0; i < n_; ++i)
      extend(&before_[i * width_], &before_[(i + 1) * width_], log_odds[i]);
    after_[n_ * width_] = 1;
    for (std::size_t i = n_; i-- > 0;) extend(&after_[(i + 1) * width_], &after_[i * width_], log_odds[i]);
    for (std::size_t i = 0; i < n_; ++i)
      conditional[i] = log_odds[i] + std::log(others(i, k_ - 1) / others(i, k_));
  }

 private:
  void extend(const double* from, double* to, double log_odds) const {
    std::copy_n(from, width_, to);
    add_draw(to, k_, logistic(log_odds), logistic(-log_odds));
  }
  /// Probability that the draws other than i succeed h times.
  double others(std::size_t i, std::uint32_t h) const {
    const double* before = &before_[i * width_];
    const double* after = &after_[(i + 1) * width_];
    double sum = 0;
    for (std::uint32_t j = 0; j <= h; ++j) sum += before[j] * after[h - j];
    return sum;
  }

  std::size_t n_;
  std::uint32_t k_;
  std::size_t width_;
  std::vector<double> before_, after_;  // [n + 1, k + 1]: successes among the first i, and from i on
};

/// Fits the draws that are neither certain nor impossible: turns targets into the draws' log-odds, and
/// `attained` into the inclusion probabilities they yield.
void fit_uncertain(std::vector<double>& log_odds, std::uint32_t k, std::vector<double>& attained) {
  const std::size_t n = log_odds.size();
  shift_to_sum(log_odds, k);
  const std::vector<double> target = log_odds;
  std::vector<double> conditional(n);
  ConditionalLogOdds model(n, k);
  double step = 1, worst = std::numeric_limits<double>::infinity();
  for (std::uint32_t iteration = 0;; ++iteration) {
    model.compute(log_odds, conditional);
    const double previous = worst;
    worst = 0;
    for (std::size_t i = 0; i < n; ++i)
      worst = std::max(worst, std::abs(logistic(target[i]) - logistic(conditional[i])));
    if (worst <= kAttained || iteration == kIterations) break;
    // A full step is the fastest, except where experts swap in pairs: there it goes back and forth.
    if (worst > previous / 3) step = 2.0 / 3;
    for (std::size_t i = 0; i < n; ++i) log_odds[i] += step * (target[i] - conditional[i]);
  }
  if (!(worst <= kAcceptable))
    throw InputError("inclusion probabilities", "no selection probabilities were found that yield them");
  shift_to_sum(log_odds, k);
  for (std::size_t i = 0; i < n; ++i) attained[i] = logistic(conditional[i]);
}

}  // namespace

ConditionalPoisson fit_conditional_poisson(std::span<const double> inclusion, std::uint32_t k) {
  ConditionalPoisson fit{std::vector<double>(inclusion.size()), {}, k};
  std::vector<std::size_t> uncertain;
  std::vector<double> log_odds;
  std::uint32_t left = k;
  for (std::size_t i = 0; i < inclusion.size(); ++i) {
    if (inclusion[i] >= 1 - kCertain) {
      fit.selection[i] = 1;
      if (left > 0) --left;
    } else if (inclusion[i] > kCertain) {
      uncertain.push_back(i);
      log_odds.push_back(logit(inclusion[i]));
    }
  }
  fit.inclusion = fit.selection;
  if (left == 0 || left >= uncertain.size()) {  // then the sum leaves no choice
    for (const std::size_t i : uncertain) fit.selection[i] = fit.inclusion[i] = left == 0 ? 0 : 1;
    return fit;
  }
  std::vector<double> attained(uncertain.size());
  fit_uncertain(log_odds, left, attained);
  for (std::size_t j = 0; j < uncertain.size(); ++j) {
    fit.selection[uncertain[j]] = logistic(log_odds[j]);
    fit.inclusion[uncertain[j]] = attained[j];
  }
  return fit;
}

std::vector<double> success_counts(std::span<const double> q, std::uint32_t limit) {
  std::vector<double> phi(limit + std::size_t{1});
  phi[0] = 1;
  for (const double p : q) add_draw(phi.data(), limit, p, 1 - p);
  return phi;
}

HitTable::HitTable(std::span<const double> selection, std::uint32_t k)
    : selection_(selection.begin(), selection.end()), k_(k), rows_(selection.size() + 1) {}

const double* HitTable::hits(std::uint32_t begin, std::uint32_t end) {
  assert(begin <= end && end <= selection_.size());
  const std::size_t width = k_ + std::size_t{1};
  std::vector<double>& row = rows_[begin];
  if (row.empty()) {
    row.resize((selection_.size() - begin + 1) * width);
    row[0] = 1;
    for (std::size_t i = begin; i < selection_.size(); ++i) {
      double* to = &row[(i - begin + 1) * width];
      std::copy_n(to - width, width, to);
      add_draw(to, k_, selection_[i], 1 - selection_[i]);
    }
  }
  return &row[(end - begin) * width];
}

}  // namespace moelab
