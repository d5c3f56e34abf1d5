#include "sim/results/speed_table.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "sim/results/request_latencies.hpp"
#include "sim/results/statistics.hpp"

namespace moelab {
namespace {

using FigureOfSeeds = std::function<double(const std::vector<double>&)>;

std::vector<std::string> figure_cells(const std::string& name, const std::vector<SpeedFigures>& seeds,
                                      const FigureOfSeeds& figure) {
  static constexpr std::array<int, 7> kDigits = {2, 1, 1, 1, 1, 2, 1};  // behind the point, at least
  std::vector<std::string> row = {name};
  for (std::size_t column = 0; column < kDigits.size(); ++column) {
    std::vector<double> known;
    for (const SpeedFigures& one : seeds)
      if (one[column]) known.push_back(*one[column]);
    row.push_back(known.empty() ? "-" : three_digits(figure(known), kDigits[column]));
  }
  return row;
}

}  // namespace

SpeedFigures speed_of(const RunResult& r) {
  if (r.memory.shortfall > Bytes(0)) return {};
  const Metrics& m = r.metrics;
  const RunRates rates = run_rates(m);
  SpeedFigures speed = {mean(m.ttft_s)};
  if (!m.token_gaps_s.empty()) {
    const Summary gaps = summarize(m.token_gaps_s);
    speed[1] = 1e3 * mean(request_latencies(m).of(Latency::tpot));
    speed[2] = 1e3 * gaps.p50;
    speed[3] = 1e3 * gaps.p90;
    speed[4] = 1e3 * gaps.p99;
  }
  speed[5] = rates.a_second(rates.output_tokens);
  speed[6] = mean(m.end_to_end_s);
  return speed;
}

TextTable speed_table(const std::vector<RunResult>& results, const SpeedsBySeed& by_seed) {
  std::vector<std::vector<std::string>> rows = {
      {"system", "TTFT s", "TPOT ms", "ITL p50", "p90", "p99", "tokens/s", "end-to-end s"}};
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<SpeedFigures> seeds = by_seed.empty() ? std::vector{speed_of(results[i])} : by_seed[i];
    rows.push_back(figure_cells(results[i].system, seeds, [](const auto& all) { return mean(all); }));
    if (by_seed.empty()) continue;
    rows.push_back(figure_cells("  least of " + std::to_string(seeds.size()) + " seeds", seeds,
                                [](const auto& all) { return *std::min_element(all.begin(), all.end()); }));
    rows.push_back(figure_cells("  most", seeds,
                                [](const auto& all) { return *std::max_element(all.begin(), all.end()); }));
  }
  return {rows};
}

}  // namespace moelab
