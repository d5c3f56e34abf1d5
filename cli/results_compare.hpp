// Two sweeps held against each other: which points moved, and by how much.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/results_rows.hpp"
#include "sim/results/text_report.hpp"

namespace moelab::cli {

/// A point that both sweeps have, by its places in them, and how each metric changed from the first to the
/// second: (b - a) / a, 0 where they are equal (also where both have none), infinite where a is 0 or one of
/// them has none.
struct ComparedPoint {
  std::size_t here = 0, there = 0;
  std::array<double, kMetricColumns.size()> changes{};
  std::size_t largest = 0;  // the metric whose change is furthest from 0

  bool moved() const { return changes[largest] != 0; }
};

struct SweepComparison {
  std::vector<ComparedPoint> both_done;                       // largest changes first, then by place
  std::vector<std::pair<std::size_t, std::size_t>> not_done;  // on both sides, not done on one or both
  std::vector<std::size_t> only_here, only_there;
};

/// Points are the same where axes (in any order), series, system and seed are. A point that did not run has
/// no seed; it is the same as one that is left over and has the same axes, series and system.
SweepComparison compare(const std::vector<StoredOutcome>& here, const std::vector<StoredOutcome>& there);

/// For messages: what the two sides are called.
struct ComparedNames {
  std::string here, there;
};
std::string comparison_table(const SweepComparison& comparison, const std::vector<StoredOutcome>& here,
                             const std::vector<StoredOutcome>& there, const ComparedNames& names,
                             TextForm form);
nlohmann::ordered_json comparison_json(const SweepComparison& comparison,
                                       const std::vector<StoredOutcome>& here,
                                       const std::vector<StoredOutcome>& there, const ComparedNames& names);

}  // namespace moelab::cli
