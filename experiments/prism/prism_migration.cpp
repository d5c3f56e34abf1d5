// Figure 7: users change what they ask; what the decision to migrate depends on.
#include <algorithm>
#include <cstdio>

#include "experiments/prism/prism_tables.hpp"
#include "sim/results/statistics.hpp"

namespace moelab::prism {
namespace {

using Statistics = MigrationConfig::Statistics;
constexpr const char* kShift = "prism-shift";
constexpr double kHorizon_s = 60, kFittedHorizon_s = 5;
constexpr double kPaperStatic = 7.48, kPaperMigrating = 6.73;

MigrationConfig policy(double horizon_s, Statistics statistics = Statistics::since_change,
                       double window_s = 0) {
  MigrationConfig config;
  config.every = Seconds(300);
  config.horizon = Seconds(horizon_s);
  config.statistics = statistics;
  config.window = Seconds(window_s);
  return config;
}

/// "300 s: 1164, 4500 s: 212": when experts moved, and how many.
std::string moves_of(const RunResult& r, std::size_t most = 4) {
  std::vector<MigrationRecord> adopted;
  for (const MigrationRecord& m : r.cluster.migrations)
    if (m.adopted) adopted.push_back(m);
  std::sort(adopted.begin(), adopted.end(),
            [](const MigrationRecord& a, const MigrationRecord& b) { return a.experts > b.experts; });
  const std::size_t others = adopted.size() - std::min(most, adopted.size());
  adopted.resize(adopted.size() - others);
  std::sort(adopted.begin(), adopted.end(),
            [](const MigrationRecord& a, const MigrationRecord& b) { return a.at_s < b.at_s; });
  std::string text;
  for (const MigrationRecord& m : adopted)
    text += (text.empty() ? "" : ", ") + fixed(m.at_s, 0) + " s: " + std::to_string(m.experts);
  if (others > 0) text += ", and " + std::to_string(others) + " smaller";
  return text.empty() ? "-" : text;
}

std::size_t adopted(const RunResult& r) {
  return static_cast<std::size_t>(std::count_if(r.cluster.migrations.begin(), r.cluster.migrations.end(),
                                                [](const MigrationRecord& m) { return m.adopted; }));
}

/// The horizon is a free parameter: the paper states none.
void print_figure7(const Fit& fit, Orders& orders) {
  const std::vector<RunResult> r =
      run_all({{kShift, "prism", {migration(policy(kHorizon_s))}},
               {kShift, "prism-static"},
               {kShift, "prism", {migration(policy(kFittedHorizon_s)), software(fit.costs)}},
               {kShift, "prism-static", {software(fit.costs)}}});
  const double plain = mean_latency(r[0]) / mean_latency(r[1]) - 1;
  const double fitted = mean_latency(r[2]) / mean_latency(r[3]) - 1;
  std::printf(
      "\n**Figure 7 (P5): users change what they ask after 200 requests**\n\n| | paper | nothing fitted, "
      "horizon "
      "%.0f s | software fitted, horizon %.0f s |\n|---|---|---|---|\n",
      kHorizon_s, kFittedHorizon_s);
  std::printf("| mean latency without migration, s | %.2f | %.2f | %.2f |\n", kPaperStatic,
              mean_latency(r[1]), mean_latency(r[3]));
  std::printf("| with migration, s | %.2f | %.2f | %.2f |\n", kPaperMigrating, mean_latency(r[0]),
              mean_latency(r[2]));
  std::printf("| change | %s | %s | %s |\n", percent(kPaperMigrating / kPaperStatic - 1).c_str(),
              percent(plain).c_str(), percent(fitted).c_str());
  std::printf("| migrations, experts that move | 3 | %zu (%s) | %zu (%s) |\n", adopted(r[0]),
              moves_of(r[0]).c_str(), adopted(r[2]), moves_of(r[2]).c_str());
  Order lower{"migration lowers mean latency"};
  lower.add(plain < 0, "nothing fitted " + percent(plain));
  lower.add(fitted < 0, "software fitted " + percent(fitted));
  Order three{"three migrations: one away from history, two after the change (horizon chosen)"};
  three.add(adopted(r[0]) == 3, "nothing fitted: " + moves_of(r[0]));
  three.add(adopted(r[2]) == 3, "software fitted: " + moves_of(r[2]));
  orders.push_back(lower);
  orders.push_back(three);
}

void print_horizons(const Fit& fit) {
  const std::vector<std::pair<const char*, double>> horizons = {
      {"1 s", 1}, {"5 s", 5}, {"15 s", 15}, {"1 min", 60}, {"5 min", 300}, {"30 min", 1800}};
  std::vector<Run> runs;
  for (const auto& [name, seconds] : horizons)
    for (const SoftwareCosts& costs : {SoftwareCosts{}, fit.costs})
      runs.push_back({kShift, "prism", {migration(policy(seconds)), software(costs)}});
  const std::vector<RunResult> results = run_all(runs);
  std::printf(
      "\n**How the decision depends on the horizon: migrations (when how many experts moved), experts at "
      "home, mean "
      "latency**\n\n| horizon | nothing fitted | at home %% | s | software fitted | at home %% | s "
      "|\n|---|---|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < horizons.size(); ++i) {
    std::printf("| %s |", horizons[i].first);
    for (const RunResult* r : {&results[2 * i], &results[2 * i + 1]})
      std::printf(" %zu (%s) | %.1f | %.2f |", adopted(*r), moves_of(*r, 3).c_str(), 100 * share_at_home(*r),
                  mean_latency(*r));
    std::printf("\n");
  }
}

// At which all servers' users change at a moment of decision, 3,900 s.
constexpr double kEven_s = 19.5;

void print_statistics() {
  const std::vector<std::pair<const char*, MigrationConfig>> kinds = {
      {"since the placement changed (the paper's)", policy(kHorizon_s)},
      {"window of 5 min", policy(kHorizon_s, Statistics::window, 300)},
      {"window of 10 min", policy(kHorizon_s, Statistics::window, 600)},
      {"decay, half after 1 min", policy(kHorizon_s, Statistics::decay, 60)},
      {"decay, half after 5 min", policy(kHorizon_s, Statistics::decay, 300)}};
  std::vector<Run> runs;
  for (const auto& [name, config] : kinds) {
    runs.push_back({kShift, "prism", {migration(config)}});
    runs.push_back({kShift, "prism", {even_arrivals(kEven_s), migration(config)}});
  }
  const std::vector<RunResult> results = run_all(runs);
  std::printf(
      "\n**Which statistics the decision goes by (horizon 1 min, nothing fitted): when how many experts "
      "moved**\n\n| statistics | each server's users change after 200 requests, at random times | mean "
      "latency, s | all change at 3,900 s, a moment of decision | at home from 4,200 to 4,800 s, %% "
      "|\n|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const RunResult &random = results[2 * i], &even = results[2 * i + 1];
    std::printf("| %s | %s | %.2f | %s | %.1f |\n", kinds[i].first, moves_of(random).c_str(),
                mean_latency(random), moves_of(even).c_str(), 100 * share_at_home(even, 4200, 4800));
  }
}

}  // namespace

void print_migration(const Fit& fit, Orders& orders) {
  print_figure7(fit, orders);
  print_horizons(fit);
  print_statistics();
}

}  // namespace moelab::prism
