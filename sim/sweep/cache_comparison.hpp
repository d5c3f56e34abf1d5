// One system of a scenario under several cache policies, at several budgets, with the same seeds: for each
// policy what it found and how long a token took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "policies/policy_info.hpp"
#include "sim/results/paired_ranks.hpp"

namespace moelab {

struct CompareSettings {
  std::string scenario;
  std::vector<std::pair<std::string, std::string>> settings;  // as `moelab run --set`
  std::string system;                                         // empty: the scenario's first
  /// Policies as "lru-k" or, with parameters, "lru-k:k=3:..."; empty: all that the system can run.
  std::vector<std::string> caches;
  std::vector<std::string> budgets;  // "20 GB"; empty: the scenario's
  std::uint64_t seeds = 1;           // from the scenario's on
  std::size_t jobs = 1;              // processes at a time
};

/// What one run came to. Shares are of the experts used while decoding.
struct CacheSample {
  double tpot_s = 0;       // mean time per output token of its requests
  double hit_share = 0;    // found in the form in which the system keeps experts (most: in full)
  double parts_share = 0;  // found in another form, of which parts had to be loaded
};

/// A policy, with the parameters that are not its defaults, at a budget.
struct ComparedCache {
  std::string name;  // as it was asked for: "lru-k:k=3"
  std::string policy;
  PolicyParameters parameters;
  bool knows_future = false;         // a bound (belady), and no rival of the others
  std::string refused;               // why it was not run: then there is nothing below
  std::vector<CacheSample> by_seed;  // from the scenario's seed on
  PairedRank rank;                   // by tpot_s, among those that were run and do not know the future

  /// Mean of a figure over the seeds.
  double mean_of(double CacheSample::*figure) const;
};

struct ComparedBudget {
  std::string budget;  // as given, or the scenario's
  double bytes = 0;
  std::vector<ComparedCache> caches;  // by rank; then bounds; then what was refused
  /// The bound that regret is counted from; nullptr where belady cannot be run here.
  const ComparedCache* bound() const;
};

struct CacheComparison {
  std::string scenario, system, model, device;  // model and device: titles
  std::string own_policy;                       // of the system, which has its own parameters
  std::uint64_t first_seed = 1, seeds = 1;
  std::vector<ComparedBudget> budgets;
};

/// Runs them all; belady too where it is not named, as a bound. Throws InputError for what is wrong with the
/// scenario, for a system that keeps experts by no cache policy, for names that are no policy (with the
/// nearest one), for parameters that the policy has not, for what is twice there, or, where they are named,
/// cannot be run here, and where none can. `progress` hears how many runs have ended.
CacheComparison compare_caches(const CompareSettings& settings,
                               const std::function<void(std::size_t done, std::size_t all)>& progress = {});

}  // namespace moelab
