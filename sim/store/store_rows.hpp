// Rows of a store's tables, read from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/store/result_store.hpp"
#include "sim/store/sqlite.hpp"

namespace moelab {

// In the order of the columns of kRunTable; result and metrics are dealt with apart.
inline constexpr std::string_view kRunColumns =
    "run.identity, run.status, run.error, run.scenario, run.system, run.executor, run.seed, run.version, "
    "run.started, run.wall_s, run.cpu_s, run.peak_bytes, run.host";
inline constexpr int kRunColumnCount = 13;
inline constexpr std::string_view kPointColumns =
    "point.number, point.axes, point.series, point.system, point.settings, point.run";
inline constexpr int kPointColumnCount = 6;
/// ", run.NAME" of each of kMetricColumns.
std::string metric_columns();

/// As the columns axes and settings hold them. Throws InputError for what is not UTF-8.
std::string axes_text(const sqlite::Database& database, const StoredPoint& point);
std::string settings_text(const sqlite::Database& database, const StoredPoint& point);

// Of a row, from its column `first` on. Throw InputError where the file is damaged.
StoredPoint read_point(const sqlite::Database& database, const sqlite::Statement& row, int first);
StoredRun read_run(const sqlite::Database& database, const sqlite::Statement& row, int first);
StoredMetrics read_metrics(const sqlite::Statement& row, int first);

}  // namespace moelab
