// Points of a sweep that differ in their seed alone, taken together.
#pragma once

#include <string>
#include <vector>

#include "sim/store/result_store.hpp"

namespace moelab::cli {

/// The axis that a sweep's `repeats` makes (sim/sweep/sweep_file.cpp).
inline constexpr const char* kSeedAxis = "seed";

struct RepeatedPoint {
  std::vector<StoredOutcome> repeats;  // at least one; in the order in which they were given
};

/// Points of the same axes (the seed's aside), series and system, in the order of the first of each.
std::vector<RepeatedPoint> over_seeds(std::vector<StoredOutcome> points);
/// Each point alone.
std::vector<RepeatedPoint> each_alone(std::vector<StoredOutcome> points);

/// By a column, as sort_by of points does; of a metric by its mean over the repeats that have it, of any
/// other column by the first repeat's. Throws InputError with the nearest name: no such column.
void sort_by(std::vector<RepeatedPoint>& points, const std::string& column, bool falling);

/// The numbers of its points: "3", "0–3", "0, 4, 7".
std::string numbers_text(const RepeatedPoint& point);
/// "done" where all are; else how many are what: "3 done, 1 failed".
std::string status_text(const RepeatedPoint& point);

}  // namespace moelab::cli
