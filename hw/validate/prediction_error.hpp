// How far predictions are from measurements: plain statistics on plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moelab {

/// (predicted - measured) / measured. `measured` above 0.
double signed_error(double predicted, double measured);

/// Over pairs: the size of the error, and where it leans to. Pairs whose measurement is not above 0 are left
/// out. All zero where there are none.
struct ErrorSummary {
  std::size_t count = 0;
  double median = 0, p90 = 0;  // of |signed_error|
  double bias = 0;             // median of signed_error: above 0, the prediction is too slow
  bool operator==(const ErrorSummary&) const = default;
};
/// Throws std::invalid_argument unless there are as many of both.
ErrorSummary errors_of(std::span<const double> predicted, std::span<const double> measured);

/// Spearman's rank correlation: Pearson's of the ranks, equal values sharing the mean of theirs. None where
/// there are fewer than two values, or all of one side are the same. Throws as errors_of.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// A measurement that was repeated.
struct Repeated {
  double low = 0, median = 0, high = 0;
};
/// Not empty.
Repeated repeated(std::span<const double> samples);

/// Whether predictions order things as measurements do.
struct Ordering {
  std::uint64_t pairs = 0;     // all
  std::uint64_t clear = 0;     // whose measured ranges, low to high, do not overlap
  std::uint64_t agreeing = 0;  // of the clear ones: predicted in the same order
  void add(const Ordering& other);
  bool operator==(const Ordering&) const = default;
};
/// Throws as errors_of.
Ordering ordering_of(std::span<const double> predicted, std::span<const Repeated> measured);

}  // namespace moelab
