// The points of a sweep as rows with named columns: what `moelab results` filters, sorts and writes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "sim/store/result_store.hpp"

namespace moelab::cli {

/// Of a point in a column: nothing (it did not run, or the result has none), a text, or a number.
using ResultCell = std::variant<std::monostate, std::string, double>;

struct ResultColumn {
  /// Ends in its unit where it has one: "tpot_s", "peak_bytes". An axis is called by its name, and "axis
  /// NAME" where another column has that name.
  std::string name;
  std::function<ResultCell(const StoredOutcome&)> of;
};

/// The axes that any of the points has, in the order in which they first appear.
std::vector<std::string> axis_names(const std::vector<StoredOutcome>& points);
/// The value of a point on an axis as written; nullptr where it has none.
const std::string* axis_value(const StoredPoint& point, const std::string& axis);

/// All columns: point, a column for each axis, series, system, status, the metrics, and how it was run.
std::vector<ResultColumn> result_columns(const std::vector<StoredOutcome>& points);

/// What a user would type for a status: "missing" where a point did not run yet, "does not fit" where the
/// result is that memory lacks.
std::string status_of(const StoredOutcome& point);
/// Whether the system did not fit, so that its run answered nothing.
bool is_unfit(const StoredOutcome& point);
bool is_failed(const StoredOutcome& point);

/// Whether a point is wanted.
using ResultFilter = std::function<bool(const StoredOutcome&)>;
/// One for each axis that "NAME=VALUE" is said of: any of the values said. Values are the same as written, as
/// quantities ("12 GB" is "12000 MB") or as numbers. Throws InputError with the nearest names: no such axis,
/// no point with such a value.
std::vector<ResultFilter> axis_filters(const std::vector<StoredOutcome>& points,
                                       const std::vector<std::string>& settings);
/// Points for which a condition over columns holds (sim/sweep/expression.hpp), where those ending in _s are
/// times and those in _bytes amounts; not those without a value that it asks for. Throws InputError.
ResultFilter condition_filter(const std::vector<StoredOutcome>& points, const std::string& condition);
void keep_wanted(std::vector<StoredOutcome>& points, const std::vector<ResultFilter>& filters);

/// By a column, rising: numbers and quantities by size, before texts; points without a value last. Points
/// that are alike stay in their order. Throws InputError with the nearest name: no such column.
void sort_by(std::vector<StoredOutcome>& points, const std::string& column, bool falling);
/// The places of the points in that order.
std::vector<std::size_t> places_sorted_by(const std::vector<StoredOutcome>& points, const std::string& column,
                                          bool falling);

}  // namespace moelab::cli
