// What ends a load curve: at the lowest rate that is too high, the conditions of the level that fail there,
// whether the system keeps up, and what bounds the machine.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/load_report.hpp"

namespace moelab::cli {

struct FailedClause {
  LevelClause clause;
  double value_s = 0;  // of the seed that misses it most
};

struct LoadLimit {
  double rate = 0;  // requests a second
  LoadVerdict verdict = LoadVerdict::steady;
  std::vector<FailedClause> failed = {};  // the one that is missed by the largest factor first
  std::optional<double> met_share =
      {};                              // of requests, of the seed with the least, where a share was asked for
  std::uint64_t preemptions = 0;       // of all seeds: what a full KV cache does to requests
  std::string cause = {}, place = {};  // of the first seed, as LoadSample's
  double cause_share = 0;
};

/// Of a system's points, by rate: at the first that does not do above the best one. Nothing where none is
/// known to be too high: unsettled points say nothing.
std::optional<LoadLimit> limit_of(const LoadReport& report, std::span<const LoadPoint> points);
/// Of a search: at the lowest rate that was too high for the seed whose highest rate is the median.
std::optional<LoadLimit> limit_of(const LoadReport& report, const HighestRate& found);

/// "at 4 requests/s: ttft p95 612 ms > 500 ms; bound there by dense layers (GPU), 71.2 % of the time"
std::string limit_words(const LoadLimit& limit);
/// Seconds and shares; null of nothing.
nlohmann::ordered_json limit_json(const std::optional<LoadLimit>& limit);

}  // namespace moelab::cli
