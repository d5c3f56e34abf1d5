// What `moelab tune KEY` says: where a condition holds or a metric is best, the curve as a table, JSON, and a
// picture.
#pragma once

#include <string>

#include "cli/plot/svg_chart.hpp"
#include "sim/results/text_report.hpp"
#include "sim/sweep/goal_runs.hpp"

namespace moelab::cli {

/// The sentences, each a line.
std::string goal_answer(const GoalSettings& asked, const GoalFound& found);
std::string goal_table(const GoalSettings& asked, const GoalFound& found, TextForm form);
std::string goal_json(const GoalSettings& asked, const GoalFound& found);
plot::Figure goal_figure(const GoalSettings& asked, const GoalFound& found);

}  // namespace moelab::cli
