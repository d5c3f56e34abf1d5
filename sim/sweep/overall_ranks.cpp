#include "sim/sweep/overall_ranks.hpp"

#include <algorithm>

namespace moelab {

std::vector<OverallRank> overall_ranks(const PolicyComparison& comparison) {
  std::vector<OverallRank> all;
  for (const ComparedBlock& block : comparison.blocks)
    for (const ComparedPolicy& policy : block.policies) {
      if (policy.no_rival || !policy.counts()) continue;
      auto found =
          std::find_if(all.begin(), all.end(), [&](const OverallRank& o) { return o.name == policy.name; });
      if (found == all.end()) found = all.insert(all.end(), {.name = policy.name});
      found->mean_rank += policy.rank.mean_rank;
      ++found->blocks;
      if (policy.rank.rank == 1)
        ++found->best_in;
      else if (policy.rank.noise())
        ++found->level_in;
    }
  for (OverallRank& one : all) one.mean_rank /= static_cast<double>(one.blocks);
  const std::size_t blocks = comparison.blocks.size();
  std::stable_sort(all.begin(), all.end(), [&](const OverallRank& a, const OverallRank& b) {
    if ((a.blocks == blocks) != (b.blocks == blocks)) return a.blocks == blocks;
    return a.mean_rank < b.mean_rank;
  });
  return all;
}

}  // namespace moelab
