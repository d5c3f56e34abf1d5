// Which of several things is the smallest, and which of their differences chance may have made: all are
// measured under the same seeds, and compared seed by seed.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/results/statistics.hpp"

namespace moelab {

/// Of one thing; means and intervals in the unit of the values.
struct PairedRank {
  double mean = 0;
  std::size_t place = 1;  // by mean, from 1; the earlier one of equal means comes first
  std::size_t rank = 1;   // as place, but equal means share the first of their places
  double mean_rank = 1;   // the mean of the places that equal means share: 1.5 for two that are first
  /// Its value less that of the one at place 1, seed by seed: how far behind it is. Of one seed, or where no
  /// value depends on it: no half width.
  Interval behind;
  /// Ranks that cannot be told apart by 95 % intervals of paired differences: above it are at least those
  /// that are surely smaller, below it at least those that are surely larger. Nothing with one
  /// seed, and where no value depends on it: many seeds are one measurement then.
  std::optional<std::size_t> best_rank, worst_rank;
  /// Its interval to the one at place 1 holds 0: what lies between them may be chance. Not known
  /// where there are no such ranks.
  bool noise() const { return best_rank && behind.mean <= behind.half_width; }
};

/// `values`: of each thing, its value under each seed, as many for all and at least one; smaller is better.
/// Each interval is one of 95 % for itself: of twenty things that are the same, one may seem apart. Throws
/// std::logic_error where lengths differ or are 0.
std::vector<PairedRank> rank_paired(const std::vector<std::vector<double>>& values);

}  // namespace moelab
