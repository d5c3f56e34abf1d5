#include "cli/load_costs.hpp"

#include <algorithm>

#include "cli/layer_table.hpp"
#include "cli/load_values.hpp"
#include "sim/results/token_cost_table.hpp"

namespace moelab::cli {
namespace {

/// The mean of what each run knows; nothing where one does not.
std::optional<double> mean_cost(std::span<const LoadSample> samples, std::optional<double> TokenCost::*part) {
  double sum = 0;
  for (const LoadSample& sample : samples) {
    const std::optional<double> value = sample.token_cost().*part;
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum / static_cast<double>(samples.size());
}

TokenCost mean_cost(std::span<const LoadSample> samples) {
  return {.joules_out = mean_cost(samples, &TokenCost::joules_out),
          .joules_all = mean_cost(samples, &TokenCost::joules_all),
          .money_out = mean_cost(samples, &TokenCost::money_out),
          .money_all = mean_cost(samples, &TokenCost::money_all)};
}

}  // namespace

void add_load_costs(const LoadReport& r, TextReport& report) {
  std::vector<ServiceRates> all;
  for (const LoadPoint& point : r.points) all.push_back(point.samples.front().service);
  const TokenCostColumns columns(all);
  if (!columns.any()) return;
  std::vector<std::vector<std::string>> rows = {{"a token takes", "requests/s"}};
  const std::vector<std::string> heads = columns.heads();
  rows.front().insert(rows.front().end(), heads.begin(), heads.end());
  for (const LoadPoint& point : r.points) {
    const ServiceRates& rates = point.samples.front().service;
    if (!rates.any()) continue;
    rows.push_back({one_line(r.runs->scenario().systems[point.system].name), significant(point.rate)});
    const std::vector<std::string> cells = columns.cells(rates, mean_cost(point.samples));
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  report.add_table({rows});
  report.join_next();
  report.add_lines(columns.legend());
}

std::string cost_text(std::span<const LoadSample> samples) {
  const TokenCost cost = mean_cost(samples);
  const ServiceRates& rates = samples.front().service;
  std::string text;
  if (cost.joules_out)
    text = three_digits(kilowatt_hours_a_million(*cost.joules_out), 2) + " kWh" +
           (rates.estimated ? " (estimate)" : "");
  if (cost.money_out)
    text += (text.empty() ? "" : " and ") + three_digits(*cost.money_out, 2) + " " + rates.price->currency;
  return text.empty() ? "" : "; " + text + " a million output tokens";
}

}  // namespace moelab::cli
