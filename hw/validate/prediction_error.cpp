#include "hw/validate/prediction_error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "sim/results/statistics.hpp"

namespace moelab {
namespace {

void require_as_many(std::size_t a, std::size_t b) {
  if (a != b) throw std::invalid_argument("a comparison needs as many predictions as measurements");
}

/// 1 for the smallest; equal values share the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;
    for (; first < end; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

}  // namespace

double signed_error(double predicted, double measured) {
  return (predicted - measured) / measured;
}

ErrorSummary errors_of(std::span<const double> predicted, std::span<const double> measured) {
  require_as_many(predicted.size(), measured.size());
  std::vector<double> errors, sizes;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (!(measured[i] > 0)) continue;
    errors.push_back(signed_error(predicted[i], measured[i]));
    sizes.push_back(std::abs(errors.back()));
  }
  if (errors.empty()) return {};
  const Summary size = summarize(std::move(sizes));
  const std::size_t count = errors.size();
  return {count, size.p50, size.p90, summarize(std::move(errors)).p50};
}

std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b) {
  require_as_many(a.size(), b.size());
  if (a.size() < 2) return std::nullopt;
  const std::vector<double> ra = ranks_of(a), rb = ranks_of(b);
  const double middle = (static_cast<double>(a.size()) + 1) / 2;  // the mean of either's ranks
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < ra.size(); ++i) {
    aa += (ra[i] - middle) * (ra[i] - middle);
    bb += (rb[i] - middle) * (rb[i] - middle);
    ab += (ra[i] - middle) * (rb[i] - middle);
  }
  if (aa == 0 || bb == 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

Repeated repeated(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted.front(), quantile(sorted, 0.5), sorted.back()};
}

void Ordering::add(const Ordering& other) {
  pairs += other.pairs;
  clear += other.clear;
  agreeing += other.agreeing;
}

Ordering ordering_of(std::span<const double> predicted, std::span<const Repeated> measured) {
  require_as_many(predicted.size(), measured.size());
  Ordering found;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    for (std::size_t j = i + 1; j < predicted.size(); ++j) {
      ++found.pairs;
      const bool rises = measured[i].high < measured[j].low, falls = measured[j].high < measured[i].low;
      if (!rises && !falls) continue;
      ++found.clear;
      found.agreeing += rises ? predicted[i] < predicted[j] : predicted[j] < predicted[i];
    }
  return found;
}

}  // namespace moelab
