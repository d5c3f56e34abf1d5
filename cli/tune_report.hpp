// What `moelab tune alpha` shows: table, JSON and picture.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/serving/metrics.hpp"
#include "sim/tuning/alpha_tuning.hpp"

namespace moelab::cli {

/// A run with this threshold.
struct AlphaRun {
  double alpha = 0;
  double tpot_s = 0;
  RoutingCounts routing{};
};

struct TuneResult {
  std::string scenario{}, system{}, model{};
  double budget_s = 0;
  double max_alpha = 0;
  std::vector<AlphaRun> runs{};  // what was fitted, by rising alpha
  AlphaChoice choice{};
  AlphaRun chosen{};                    // a run at choice.alpha
  std::vector<std::string> warnings{};  // of the runs
};

std::string tune_table(const TuneResult& result);
std::string tune_json(const TuneResult& result);
plot::Figure tune_figure(const TuneResult& result);

}  // namespace moelab::cli
