// Expected loading time of a sparse layer for a split of its cache (ZipMoE, Alg. 3 and lines 6 to 29 of
// Alg. 4), in closed form where the paper enumerates.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "policies/planning/conditional_poisson.hpp"
#include "policies/planning/planning.hpp"

namespace moelab {

inline constexpr std::size_t kPools = 4;               // F, C, S, E: the states before M
using PoolSizes = std::array<std::uint32_t, kStates>;  // experts in F, C, S, E; M unused

/// Experts that shares of memory hold in each pool, before clipping: floor(ratio * memory / bytes).
PoolSizes pool_sizes(const PlanInput& input, const std::array<double, kStates>& ratios);
/// The pools occupy ranks in the order F, C, S, E; what lies beyond the last expert is cut off.
PoolSizes clipped(PoolSizes sizes, std::size_t experts);

/// Alg. 3: max(T_IO, T_decomp) for a number of hits in each pool, seconds. With k experts used, n tensors of
/// K shards each, and h the hits: T_IO = n u (k - hF - hC - hS) + n K v (k - hF - hC - hE) and T_decomp = (n
/// K v (k - hF - hC - hE) + n K c (k - hF)) / L.
double estimated_makespan(const PlanInput& input, const PoolSizes& hits);

class ExpectedMakespan {
 public:
  explicit ExpectedMakespan(const PlanInput& input);

  const ConditionalPoisson& model() const { return model_; }
  /// Expected makespan, seconds, of clipped pools. The paper sums Alg. 3 over all hit patterns, O(k^4) of
  /// them. Here it is E[T_decomp] + E[max(0, T_IO - T_decomp)]: the first is linear in the hits; in the
  /// second, T_IO - T_decomp falls linearly with hE, so that for given hF, hC, hS the sum over hE is a
  /// difference of two prefix sums. O(k^3 / 6), and for each rank that first begins a pool O(N k).
  double cost(const PoolSizes& sizes);
  /// max(E[T_IO], E[T_decomp]), which is at most cost() (Jensen). O(1).
  double lower_bound(const PoolSizes& sizes) const;

 private:
  struct Times {
    double io_s;
    double decompress_s;
  };
  Times expected_times(const PoolSizes& sizes) const;
  void sum_over_e(const double* in_e, const double* missed);

  double sm_s_, e_s_, decompress_s_, threads_;  // an expert's: SM reads, E reads, decompression
  ConditionalPoisson model_;
  std::vector<double> inclusion_before_;  // by rank: sum of the inclusion probabilities of better ranks
  HitTable table_;
  // [r, t]: over hE <= t with r experts not found in F, C or S: probability, and probability times hE.
  std::vector<double> mass_, moment_;
};

}  // namespace moelab
