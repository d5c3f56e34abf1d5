// The curve over request rates, and the highest rate that meets a service level.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/load/load_runs.hpp"

namespace moelab {

/// A system at a rate: a sample a seed, and what they come to together.
struct LoadPoint {
  std::size_t system = 0;
  double rate = 0;
  std::vector<LoadSample> samples;
  LoadVerdict verdict = LoadVerdict::steady;
  bool meets_level = false;  // steady, and each seed meets the level
};

/// How a level is met. By its clauses, or by a share of requests that meet all limits at once.
struct LevelRule {
  std::optional<double> share;  // 0.99; none: by clauses
};

LoadPoint load_point(const LoadRuns& runs, const LevelRule& rule, std::size_t system, double rate,
                     std::vector<LoadSample> samples);

/// The mean over seeds of something; nothing where one of them lacks it, or could not run.
std::optional<double> mean_over_seeds(const LoadPoint& point,
                                      const std::function<std::optional<double>(const LoadSample&)>& value);

/// Each system at its rates, by system and rate, each pair once.
std::vector<LoadPoint> load_curve(LoadRuns& runs, const LevelRule& rule,
                                  std::vector<std::vector<double>> rates_by_system,
                                  const LoadProgress& progress);

/// The lowest rate that a search found too high, and the run there; the rate is infinite where none was.
struct RateMissed {
  double rate = 0;
  LoadVerdict verdict = LoadVerdict::unsettled;
  LoadSample sample = {};
};

/// What a system can promise, by seed.
struct HighestRate {
  std::size_t system = 0;
  std::vector<double> by_seed;    // requests a second; 0: it meets the level at no rate
  std::vector<RateMissed> above;  // of each
  std::vector<LoadSample> at;     // of each, the run at its rate; where that is 0, nothing of it is known
  std::string refusal;            // why there are no seeds' rates, as LoadSample's
  /// Over seeds; of an even number the lower one of the middle.
  double median() const;
  /// The run of the seed whose rate that is; nullptr where the system meets the level at no rate.
  const LoadSample* at_median() const;
  double low() const;
  double high() const;
};

/// For each system and seed the highest rate at which a run is steady and meets the level, by bisection: it
/// does there, and no longer at `1 + tolerance` times that rate. The same seed's arrivals at another rate are
/// the same ones at another pace. Systems that do not fit have no seeds' rates.
std::vector<HighestRate> find_highest_rates(LoadRuns& runs, const LevelRule& rule, double tolerance,
                                            const LoadProgress& progress);

}  // namespace moelab
