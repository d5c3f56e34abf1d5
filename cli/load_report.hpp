// What `moelab load` says: a sentence for each system, the curve as a table, JSON, CSV and a picture.
#pragma once

#include <string>
#include <vector>

#include "cli/plot/svg_chart.hpp"
#include "sim/load/load_curve.hpp"
#include "sim/results/text_report.hpp"

namespace moelab::cli {

struct LoadReport {
  const LoadRuns* runs = nullptr;
  LevelRule rule;
  std::vector<LoadPoint> points;   // by system and rate
  std::vector<HighestRate> found;  // by system; empty: not asked for
  double tolerance = 0;            // of what was found
};

/// A sentence and what limits it for each system, the best one's first.
std::string load_answer(const LoadReport& report);
std::string load_table(const LoadReport& report, TextForm form = {});
std::string load_json(const LoadReport& report);
/// A line for each system, rate and seed, and with classes of requests for each of them, all values in SI
/// units.
std::string load_csv(const LoadReport& report);
/// A line for each request of each run of the curve, where they are kept (LoadSettings): its system and rate,
/// and what requests_jsonl() has of it. As JSON or, where `path` ends in .csv, with commas under a header.
std::string load_records(const LoadReport& report, const std::string& path);
/// TTFT and TPOT over the rate, what was served, with a level the share of requests that meet it, and
/// throughput over the p99 of TTFT and of TPOT.
plot::Figure load_figure(const LoadReport& report);

}  // namespace moelab::cli
