// Service levels: "ttft p95 < 500 ms, tpot p99 < 50 ms", of classes of requests: "chat ttft p95 < 500 ms".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/request_latencies.hpp"

namespace moelab {

/// One condition: of a latency its mean or a percentile is below a limit.
struct LevelClause {
  Latency latency = Latency::ttft;
  std::optional<double> quantile;  // 0.95: the 95th percentile; none: the mean
  double limit_s = 0;
  std::optional<std::uint16_t> of_class = {};  // of its requests alone; none: of all
  std::string class_name = {};
};

struct ServiceLevel {
  std::vector<LevelClause> clauses;  // empty: any latency will do
  std::string text;                  // as it was given, with ',' between conditions
};

/// Reads conditions between commas or semicolons: one of `classes`, or none, a latency (ttft, tpot, itl, e2e,
/// normalised, queueing), mean or a percentile (p95, p99.9), in capitals or not, '<' and a time with its
/// unit. Throws InputError about `option` with all that is wrong: a latency that is none, with the nearest
/// name; a limit that is no time above 0; a latency limited twice by the same percentile.
ServiceLevel parse_service_level(const std::string& option, const std::string& text,
                                 const std::vector<std::string>& classes = {});

/// "ttft p95 < 500 ms", "chat ttft p95 < 500 ms"
std::string to_string(const LevelClause& clause);

/// What a clause is about, of a run's latencies, or those of its class; nothing where no request has such a
/// latency.
std::optional<double> value_of(const LevelClause& clause, const RequestLatencies& latencies);
/// Whether a run's latencies meet a clause: where no request has such a latency, they do.
bool holds(const LevelClause& clause, const RequestLatencies& latencies);

/// Whether one request meets the limits of all clauses but those of other classes, whatever their
/// percentiles: it was answered, and each of its latencies that it has is below the limit (of ITL, its
/// longest gap).
bool meets(const RequestTimes& request, const ServiceLevel& level);

}  // namespace moelab
