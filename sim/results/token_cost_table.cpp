#include "sim/results/token_cost_table.hpp"

#include <algorithm>

#include "sim/results/request_latencies.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const std::optional<double>& value, int digits) {
  return value ? three_digits(*value, digits) : "-";
}

std::vector<ServiceRates> rates_of(const std::vector<RunResult>& results) {
  std::vector<ServiceRates> all;
  for (const RunResult& r : results) all.push_back(r.service);
  return all;
}

}  // namespace

TokenCost token_cost_of(const RunResult& r) {
  const RunRates rates = run_rates(r.metrics);
  return token_cost(r.service, rates.a_second(rates.output_tokens), rates.a_second(rates.input_tokens));
}

TokenCostColumns::TokenCostColumns(const std::vector<ServiceRates>& all) {
  for (const ServiceRates& rates : all) {
    power_ = power_ || rates.watts;
    estimated_ = estimated_ || rates.estimated;
    if (rates.price) currency_ = rates.price->currency;
  }
}

std::vector<std::string> TokenCostColumns::heads() const {
  std::vector<std::string> heads;
  if (power_) heads = {"power W", "J/token out", "in+out", "kWh/M out", "in+out"};
  if (!currency_.empty()) heads.insert(heads.end(), {currency_ + "/h", currency_ + "/M out", "in+out"});
  return heads;
}

std::vector<std::string> TokenCostColumns::cells(const ServiceRates& rates, const TokenCost& cost) const {
  const auto hours = [](const std::optional<double>& joules) {
    return joules ? std::optional(kilowatt_hours_a_million(*joules)) : std::nullopt;
  };
  std::vector<std::string> row;
  if (power_)
    row = {cell(rates.watts, 0), cell(cost.joules_out, 2), cell(cost.joules_all, 2),
           cell(hours(cost.joules_out), 2), cell(hours(cost.joules_all), 2)};
  if (!currency_.empty())
    row.insert(row.end(), {rates.price ? three_digits(rates.price->per_hour, 2) : "-",
                           cell(cost.money_out, 2), cell(cost.money_all, 2)});
  return row;
}

std::string TokenCostColumns::legend() const {
  if (!any()) return "";
  std::string text =
      "out: by output token; in+out: by token, prompts' included, found in the KV cache or not; M: a "
      "million\n";
  if (!estimated_) return text;
  const auto share = [](double part) { return fixed(100 * part, 0); };
  return text + "power: an estimate, " + share(kGpuPowerShare.typical) +
         " % of the GPUs' rated power at any time (" + share(kGpuPowerShare.least) + " to " +
         share(kGpuPowerShare.most) +
         " % were measured) and all of a CPU's that computes experts; nothing else of the machine\n";
}

void add_token_cost(const std::vector<RunResult>& results, TextReport& report) {
  const TokenCostColumns columns(rates_of(results));
  if (!columns.any()) return;
  std::vector<std::vector<std::string>> rows = {{"a token takes"}};
  const std::vector<std::string> heads = columns.heads();
  rows.front().insert(rows.front().end(), heads.begin(), heads.end());
  for (const RunResult& r : results) {
    if (!r.service.any()) continue;
    rows.push_back({r.system});
    const std::vector<std::string> cells = columns.cells(r.service, token_cost_of(r));
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  report.add_table({rows});
  report.join_next();
  report.add_lines(columns.legend());
}

Json token_cost_json(const ServiceRates& rates, const TokenCost& cost) {
  Json j;
  const auto add = [&j](const char* key, const std::optional<double>& value) {
    if (value) j[key] = *value;
  };
  if (rates.watts) {
    j["power_w"] = *rates.watts;
    j["power_from"] = rates.estimated ? "rated power" : "scenario";
  }
  if (rates.estimated)
    j.update({{"gpu_power_share", kGpuPowerShare.typical},
              {"least_gpu_power_share", kGpuPowerShare.least},
              {"most_gpu_power_share", kGpuPowerShare.most}});
  add("energy_j_per_output_token", cost.joules_out);
  add("energy_j_per_token", cost.joules_all);
  if (cost.joules_out) j["energy_kwh_per_million_output_tokens"] = kilowatt_hours_a_million(*cost.joules_out);
  if (cost.joules_all) j["energy_kwh_per_million_tokens"] = kilowatt_hours_a_million(*cost.joules_all);
  if (rates.price) j.update({{"price_per_h", rates.price->per_hour}, {"currency", rates.price->currency}});
  add("cost_per_million_output_tokens", cost.money_out);
  add("cost_per_million_tokens", cost.money_all);
  return j;
}

}  // namespace moelab
