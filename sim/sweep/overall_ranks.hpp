// Which policy is the best over all blocks of a comparison.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/sweep/policy_comparison.hpp"

namespace moelab {

struct OverallRank {
  std::string name;          // of the policy, with its parameters
  double mean_rank = 0;      // over the blocks in which it was run; policies that do the same share ranks
  std::size_t blocks = 0;    // in which it was run
  std::size_t best_in = 0;   // blocks in which none is ahead of it
  std::size_t level_in = 0;  // others in which it cannot be told from rank 1
};

/// Policies that were run in all blocks by mean rank, of equal ones the earlier first; then, in the same way,
/// those that were run in some. Bounds are not among them.
std::vector<OverallRank> overall_ranks(const PolicyComparison& comparison);

}  // namespace moelab
