// A leaderboard: a file of lines, each a policy's figures in one setting, to which lines are
// appended on any machine. It is JSON Lines (UTF-8, an object a line, empty lines left out),
// with these keys, in SI units:
//
//   setting            32 hexadecimal digits: XXH3 of the scenario as it was run, with its model, device,
//                      system and the digests of its data and of what brought its policies of other
//                      families, without policy, budget, seeds and names
//   family             of the policy: "cache", "prefetch", ...
//   scenario, system, model, device    names and titles, for people
//   trace, law         where the routing is another than the scenario's (one of them, or neither)
//   budget_bytes, first_seed, seeds
//   policy, parameters the policy, and all of its parameters by name
//   library            where its code is from: "moelab VERSION"; "xxh3 DIGITS", 16 hexadecimal digits, of the
//                      file of a library; or "python DIGEST", as add_policies() was given it with policies
//                      that come from no file
//   bound              true: the policy knows the future or tries everything, and is not ranked
//   tpot_by_seed_s     mean time per output token under each seed, 1e-12 to 1e9
//   tpot_s, tpot_half_width_s    their mean, and half of its 95 % interval (Student's t; 0 of one seed)
//   end_to_end_by_seed_s, end_to_end_s, end_to_end_half_width_s    in their place, where `moelab run` judges
//                      by it (requests share steps, or a cluster serves them): the mean latency of a request
//   hit_share          of the experts used while decoding; where the system has any that a cache could find;
//                      of placements, of all experts used, those on the server of the user
//   regret_s, regret_hit_share   to the family's bound, where it was run beside
//   moelab, date       the program's version; "2026-11-30T12:00:00Z"
//
// Figures are comparable where setting, family, budget, seeds and what is timed are the same: then seed by
// seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/sweep/policy_comparison.hpp"

namespace moelab {

struct LeaderboardLine {
  std::string setting{}, family{}, scenario{}, system{}, model{}, device{}, trace{}, law{};
  double budget_bytes = 0;
  std::uint64_t first_seed = 1, seeds = 1;
  std::string policy{};
  PolicyParameters parameters{};
  std::string library{};
  bool bound = false;
  JudgedBy by = JudgedBy::tpot;
  std::vector<double> by_seed_s{};
  double mean_s = 0, half_width_s = 0;
  std::optional<double> hit_share{}, regret_s{}, regret_hit_share{};
  std::string moelab{}, date{};
};

/// A line for each block and policy that was run. The comparison has its settings' digests.
std::vector<LeaderboardLine> leaderboard_lines(const PolicyComparison& comparison, const std::string& date);

/// Keys of the times: by seed, their mean, half of its interval.
struct LeaderboardTimeKeys {
  const char *by_seed, *mean, *half_width;
};
LeaderboardTimeKeys leaderboard_time_keys(JudgedBy by);

/// As it stands in the file, with the end of the line.
std::string leaderboard_text(const LeaderboardLine& line);

/// The lines of a file, in which little is believed: each is as described above, no key stands twice, its
/// mean and interval are those of its values, a policy of moelab's own is a bound where moelab says so, its
/// date has been (or comes within a day: clocks differ), and no text has control characters. Throws
/// InputError with the file and the line of everything that is not so.
std::vector<LeaderboardLine> read_leaderboard(const std::string& file);

/// Appends the lines; makes the file where there is none. All of them or none are there afterwards, whatever
/// happens, and what programs append at the same time is there one after the other: the file is locked
/// (flock) and replaced by one that is whole. Throws InputError where it cannot be locked or written.
void append_to_leaderboard(const std::string& file, const std::vector<LeaderboardLine>& lines);

}  // namespace moelab
