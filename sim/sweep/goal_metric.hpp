// What a goal is about: a figure of a run by its name ("tpot", "ttft p95", "tokens_per_s", "hits"), and a
// condition on it ("tpot < 100 ms", "tokens_per_s >= 12").
#pragma once

#include <optional>
#include <string>

#include "sim/results/request_latencies.hpp"
#include "sim/run_result.hpp"

namespace moelab {

struct GoalMetric {
  enum class Kind : std::uint8_t { latency, tokens_rate, input_rate, requests_rate, hits };
  std::string text;  // as it was asked for
  Kind kind = Kind::latency;
  Latency latency = Latency::tpot;
  std::optional<double> quantile = {};  // of a latency; none: the mean

  bool larger_is_better() const { return kind != Kind::latency; }
};

/// `text` is a latency (ttft, tpot, itl, e2e, normalised, queueing) with or without mean or a percentile
/// (p95); tokens_per_s, input_tokens_per_s, requests_per_s; or hits, of the experts used while decoding the
/// share that was found as the system keeps them. Throws InputError about `option`, with the nearest name.
GoalMetric parse_goal_metric(const std::string& option, const std::string& text);

/// In seconds, per second, or as a share; nothing where the run has none. `kept_as`: of its system.
std::optional<double> value_of(const GoalMetric& metric, const RunResult& result, State kept_as);
/// "99.21 ms", "3.62 tokens/s", "81.2 %"
std::string shown_value(const GoalMetric& metric, double value);

struct GoalCondition {
  GoalMetric metric;
  bool below = true, with_limit = false;  // <, <=, > or >=
  double limit = 0;
  std::string text;  // as it was asked for

  bool holds(double value) const { return value == limit ? with_limit : (value < limit) == below; }
};

/// Reads a metric, one of < <= > >=, and a limit with its unit: a time, a number (of tokens or requests a
/// second), a share ("80 %"). Throws InputError about `option`.
GoalCondition parse_goal_condition(const std::string& option, const std::string& text);

}  // namespace moelab
