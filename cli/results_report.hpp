// What `moelab results` shows of a store: its sweeps, the points of one, what failed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/repeated_points.hpp"
#include "cli/results_rows.hpp"
#include "sim/results/text_table.hpp"

namespace moelab::cli {

struct ListedSweep {
  StoredSweep sweep;
  SweepCounts counts;
};

TextTable sweeps_table(const std::vector<ListedSweep>& sweeps);
/// Repeats with their axes and main metrics, one a line: means and, where they differ as shown,
/// "(least–most)".
TextTable points_table(const std::vector<RepeatedPoint>& points);
/// Points that failed, each with its error.
std::string failed_list(const std::vector<StoredOutcome>& points);
/// All columns (RFC 4180), one point a line. Numbers read back exactly; what there is none of is empty.
std::string points_csv(const std::vector<StoredOutcome>& points);

nlohmann::ordered_json sweeps_json(const std::vector<ListedSweep>& sweeps);
nlohmann::ordered_json points_json(const std::vector<StoredOutcome>& points);

/// The number as the shortest decimal that reads back exactly.
std::string exact(double value);
/// "budget=12 GB batch=4", the series, the system.
std::string description(const StoredPoint& point);

}  // namespace moelab::cli
