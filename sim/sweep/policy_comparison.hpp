// One system of a scenario under several policies of a family, on several traces, at several budgets, with
// the same seeds: for each policy how fast it was, as `moelab run` judges it, and what a cache found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policies/policy_info.hpp"
#include "sim/results/paired_ranks.hpp"
#include "sim/sweep/run_answer.hpp"

namespace moelab {

struct CompareSettings {
  std::string scenario;             // a name or a path
  std::optional<std::string> text;  // of the scenario, whose name is then for messages
  std::vector<std::pair<std::string, std::string>> settings;  // as `moelab run --set`
  std::string system;                                         // empty: the scenario's first
  std::string family = "cache";                               // one of compared_families()
  /// Policies as "lru-k" or, with parameters, "lru-k:k=3:..."; empty: all that the system can run.
  std::vector<std::string> policies;
  /// Routing in the place of the scenario's: files of traces, or the one in the program; laws by name or
  /// path. Both empty: the scenario's own.
  std::vector<std::string> traces, laws;
  std::vector<std::string> budgets;  // "20 GB"; empty: the scenario's
  std::uint64_t seeds = 1;           // from the scenario's on
  std::size_t jobs = 1;              // processes at a time
  bool settings_digests = false;     // ComparedBlock::setting is wanted, for which data files are read
};

/// What one run came to. Shares are of the experts used while decoding; on a cluster, of all that were used.
struct PolicySample {
  double seconds = 0;      // judged_latency() by PolicyComparison::by
  double hit_share = 0;    // found in the form in which the system keeps experts (most: in full); on a
                           // cluster, on the server of the user
  double parts_share = 0;  // found in another form, of which parts had to be loaded
};

/// A policy, with the parameters that are not its defaults, in a block.
struct ComparedPolicy {
  std::string name;  // as it was asked for: "lru-k:k=3"
  std::string policy;
  PolicyParameters parameters;
  PolicyParameters all_parameters;  // as it is run: those, the system's own where it has the policy, defaults
  std::string library;              // as PolicyInfo says
  bool no_rival = false;            // knows the future or tries everything: not ranked
  bool is_reference = false;        // what regret is counted to
  std::string refused;              // why it was not run: then there is nothing below
  bool lacks_memory = false;        // that is why
  RequestCounts requests;           // on a cluster, over the seeds
  std::string unranked;  // why it was run and has no rank: more requests fail with it than with others
  std::vector<PolicySample> by_seed;  // from the scenario's seed on
  PairedRank rank;                    // by seconds, among rivals that were run

  /// Whether it has a rank, or is a bound.
  bool counts() const { return refused.empty() && unranked.empty(); }
  /// Mean of a figure over the seeds.
  double mean_of(double PolicySample::*figure) const;
};

/// All policies on one routing and budget.
struct ComparedBlock {
  std::string trace, law;  // as given; both empty: the scenario's routing
  std::string budget;      // as given, or the scenario's
  double bytes = 0;
  /// 32 hexadecimal digits that are the same where all is but policy, budget and seeds: what is run with its
  /// data and the libraries of its other policies; "" where it is not wanted.
  std::string setting;
  bool has_hits = false;                 // some run used experts that a cache or a server could have had
  std::vector<ComparedPolicy> policies;  // by rank; then bounds; then what has no rank or was refused
  /// What regret is counted from; nullptr where there is none, or it cannot be run here.
  const ComparedPolicy* bound() const;
  /// Of one in which no rival has the memory: what the first of them lacks.
  const std::string& why_unfit() const;
};

struct PolicyComparison {
  std::string scenario, system, model, device;  // model and device: titles
  std::string family;
  std::string own_policy;  // of the system, which has its own parameters
  JudgedBy by = JudgedBy::tpot;
  std::uint64_t first_seed = 1, seeds = 1;
  std::vector<ComparedBlock> blocks;  // by routing, then by budget
  std::vector<ComparedBlock>
      unfit;  // those with too little memory for every rival, which are not in `blocks`
};

/// Runs them all; the family's bound too where it is not named. Throws InputError for what is wrong with the
/// scenario, for a system that chooses by no policy of the family, for names that are no policy (with the
/// nearest one), for parameters that the policy has not, for what is twice there, or, where they are named,
/// cannot be run here for anything but want of memory, and where none can; NothingFits where none has the
/// memory. `progress` hears how many runs have ended.
PolicyComparison compare_policies(
    const CompareSettings& settings,
    const std::function<void(std::size_t done, std::size_t all)>& progress = {});

}  // namespace moelab
