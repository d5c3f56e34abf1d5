// What the figures of a result are: a row for each key of the JSON that sim/results/result_json.cpp writes.
#pragma once

#include <string_view>
#include <vector>

namespace moelab::cli {

struct MetricRow {
  /// "metrics.tpot_s.STAT". "[]": of each entry of a list. In the place of one of several keys stand STAT
  /// (mean, p50, p90, p95, p99), STATE (F, C, S, E, M), CAUSE (those of `stall_s`) and NAME (of a resource, a
  /// data set).
  std::string_view path;
  std::string_view unit;        // "s", "bytes", "tokens/s"; "": a count, a name or a text
  std::string_view definition;  // a line
};

/// In the order in which a result has them.
const std::vector<MetricRow>& metric_table();

}  // namespace moelab::cli
