#include "sim/sweep/leaderboard_ranks.hpp"

#include <algorithm>
#include <tuple>

namespace moelab {
namespace {

bool are_of_one_setting(const LeaderboardLine& a, const LeaderboardLine& b) {
  const auto key = [](const LeaderboardLine& l) {
    return std::tie(l.setting, l.family, l.budget_bytes, l.first_seed, l.seeds, l.by);
  };
  return key(a) == key(b);
}

bool are_of_one_policy(const LeaderboardLine& a, const LeaderboardLine& b) {
  const auto key = [](const LeaderboardLine& l) { return std::tie(l.policy, l.parameters, l.library); };
  return key(a) == key(b);
}

/// The line, or in the place of the one of the same policy where that is not later.
void add_latest(const LeaderboardLine& line, std::vector<LeaderboardLine>& lines) {
  const auto same = std::find_if(lines.begin(), lines.end(),
                                 [&](const LeaderboardLine& one) { return are_of_one_policy(one, line); });
  if (same == lines.end())
    lines.push_back(line);
  else if (line.date >= same->date)
    *same = line;
}

RankedSetting ranked(const std::vector<LeaderboardLine>& lines) {
  RankedSetting setting;
  std::vector<std::vector<double>> values;
  for (const LeaderboardLine& line : lines) {
    if (line.bound) {
      setting.bounds.push_back(line);
      continue;
    }
    setting.rivals.push_back({line, {}});
    values.push_back(line.by_seed_s);
  }
  const std::vector<PairedRank> ranks = rank_paired(values);
  for (std::size_t i = 0; i < ranks.size(); ++i) setting.rivals[i].rank = ranks[i];
  std::sort(setting.rivals.begin(), setting.rivals.end(),
            [](const RankedLine& a, const RankedLine& b) { return a.rank.place < b.rank.place; });
  return setting;
}

}  // namespace

std::vector<RankedSetting> rank_leaderboard(const std::vector<LeaderboardLine>& lines) {
  std::vector<std::vector<LeaderboardLine>> settings;
  for (const LeaderboardLine& line : lines) {
    const auto same = std::find_if(settings.begin(), settings.end(),
                                   [&](const auto& one) { return are_of_one_setting(one.front(), line); });
    if (same == settings.end())
      settings.push_back({line});
    else
      add_latest(line, *same);
  }
  std::vector<RankedSetting> all;
  for (const std::vector<LeaderboardLine>& one : settings) all.push_back(ranked(one));
  return all;
}

}  // namespace moelab
