// What a leaderboard's lines say: policies that were measured in the same setting, ranked.
#pragma once

#include <vector>

#include "sim/results/paired_ranks.hpp"
#include "sim/sweep/leaderboard.hpp"

namespace moelab {

struct RankedLine {
  LeaderboardLine line;
  PairedRank rank;  // by time per output token, paired over the seeds; not of bounds
};

/// Lines that can be held against each other: of one setting, family, budget and seeds.
struct RankedSetting {
  std::vector<RankedLine> rivals;       // the best first
  std::vector<LeaderboardLine> bounds;  // not ranked, in the order in which they stand in the file
};

/// Settings in the order in which the file has them first. Of a policy that was measured several times, with
/// the same parameters and from the same library, the latest line counts (of one date the last in the file).
std::vector<RankedSetting> rank_leaderboard(const std::vector<LeaderboardLine>& lines);

}  // namespace moelab
