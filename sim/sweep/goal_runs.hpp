// Runs of one system at values of one key, with the same seeds at each, and the search for a goal over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/units.hpp"
#include "sim/cluster/cluster_metrics.hpp"
#include "sim/results/statistics.hpp"
#include "sim/sweep/goal_domain.hpp"
#include "sim/sweep/goal_metric.hpp"
#include "sim/sweep/goal_search.hpp"
#include "sim/sweep/request_rate.hpp"

namespace moelab {

struct GoalSettings {
  std::string scenario;
  std::vector<std::pair<std::string, std::string>> settings;  // as `moelab run --set`
  std::string system;                                         // empty: the scenario's first
  std::string path;                                           // of the key, as --set has it
  AskedDomain domain;                                         // `now` and `most` are looked up
  GoalMetric metric;
  std::optional<GoalCondition> condition;  // of the metric; none: the metric is to be best
  bool smallest = false;                   // without a condition: best is least
  std::size_t points = 5;                  // that show the curve before the search, >= 2
  std::uint64_t requests = 0;              // of a run; 0: the scenario's, of a rate as requests_at_rate()
  std::uint64_t seeds = 1;                 // from the scenario's on
  std::size_t jobs = 1;                    // processes at a time
};

/// Whether the key is the rate at which requests come, which is searched as `moelab load` does.
bool is_request_rate(const std::string& path);

/// What the system came to at a value.
struct GoalPoint {
  std::vector<double> by_seed;       // the metric, in the order of seeds; empty where it could not be run
  std::vector<LoadVerdict> kept_up;  // likewise, whether it did with requests that come at a rate
  std::string refused;               // why not
  bool lacks_memory = false;         // that is why
  std::string cause, place;  // of the first seed: what bounds it, as words_of_cause() and RunAnswer have it
  double share = 0;          // of its time
  /// What the system reads experts through beside its budget, of one memory for all; 0: no such cache.
  Bytes page_cache;
  RequestCounts requests;                                    // on a cluster, of all seeds
  Interval interval() const { return interval95(by_seed); }  // of the mean over seeds; for one that ran
};

enum class GoalKind : std::uint8_t { holds, nowhere, best };

struct GoalFound {
  std::string scenario, system, path, model, device;
  GoalDomain domain;
  /// Values between its ends that reading the scenario refuses, rising, in its unit, each with why; they are
  /// no places of the domain.
  std::vector<std::pair<double, std::string>> not_possible;
  /// The key is a rate and the condition a limit of latency: it holds at a value where seeds_that_decide()
  /// of the seeds are steady and meet it, and not by the mean over seeds.
  bool as_load = false;
  std::uint64_t requests = 0;  // of a run
  std::uint64_t first_seed = 1;
  bool seeds_matter = false;                // some value differs by the seed
  std::map<std::size_t, GoalPoint> points;  // by place in the domain
  GoalKind kind = GoalKind::best;
  ThresholdFound threshold;            // of a condition
  std::optional<BestFound> best;       // of the metric, where there is no condition or it holds nowhere
  std::vector<std::size_t> like_best;  // places that seeds cannot tell from the best one, that among them
};

/// The metric at a value that ran: the mean over seeds and its 95 % interval; of a search as `moelab load`
/// the seed's that decides (the last of seeds_that_decide(), from the least on), and all seeds' range.
struct GoalFigure {
  double value = 0, low = 0, high = 0;
};
GoalFigure figure_at(const GoalFound& found, const GoalPoint& point);

/// Whether the condition that was asked for holds at a value that ran.
bool holds_at(const GoalSettings& asked, const GoalFound& found, const GoalPoint& point);

/// Throws InputError for what is wrong with the scenario or the range, and where the system runs at neither
/// end and nowhere between. `progress` hears how many runs have ended of those that are known to be wanted.
GoalFound search_goal(const GoalSettings& settings,
                      const std::function<void(std::size_t done, std::size_t wanted)>& progress);

}  // namespace moelab
