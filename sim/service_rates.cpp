#include "sim/service_rates.hpp"

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/yaml_reader.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {
namespace {

constexpr double kSecondsAnHour = 3600;

/// GPUs that are paid for.
int gpus_of(const Scenario& s) {
  if (s.machine) return s.machine->gpu ? s.machine->gpus : 0;
  return s.device.gpu ? static_cast<int>(s.gpus()) : 0;
}

bool cpu_computes(const MachineParts& machine, const Metrics& metrics) {
  const auto on_cpu = static_cast<std::size_t>(Cause::cpu_experts);
  return !machine.gpu || metrics.execution.on_cpu > 0 || metrics.stall_s[on_cpu] > 0;
}

std::optional<double> estimated_watts(const Scenario& s, const Metrics& metrics) {
  if (!s.machine || !says_arrivals(s.workload)) return std::nullopt;
  const MachineParts& machine = *s.machine;
  double watts = 0;
  if (machine.gpu) {
    if (machine.gpu->watts <= 0) return std::nullopt;
    watts += kGpuPowerShare.typical * machine.gpu->watts * s.gpus();
  }
  if (!cpu_computes(machine, metrics)) return watts;
  if (!machine.cpu || machine.cpu->watts <= 0) return std::nullopt;
  return watts + kCpuPowerShare * machine.cpu->watts * machine.sockets;
}

std::optional<double> by_token(std::optional<double> a_second, double tokens_per_s) {
  if (!a_second || tokens_per_s <= 0) return std::nullopt;
  return *a_second / tokens_per_s;
}

}  // namespace

void to_json(nlohmann::json& j, const ServiceRates& rates) {
  j = {{"estimated", rates.estimated}};
  if (rates.watts) j["watts"] = *rates.watts;
  if (rates.price) j["price"] = {{"per_hour", rates.price->per_hour}, {"currency", rates.price->currency}};
}

void from_json(const nlohmann::json& j, ServiceRates& rates) {
  rates = {.watts = std::nullopt, .estimated = j.at("estimated").get<bool>(), .price = std::nullopt};
  if (j.contains("watts")) rates.watts = j["watts"].get<double>();
  if (j.contains("price"))
    rates.price = Price{.per_hour = j["price"]["per_hour"].get<double>(),
                        .currency = j["price"]["currency"].get<std::string>()};
}

void read_service_rates(const YamlMap& root, Scenario& s) {
  const std::string power = root.text("power", ""), price_text = root.text("price", "");
  const auto fail = [&root](const char* key, const std::string& text, const std::string& expected) {
    root.fail(key, "'" + shown_word(text) + "' for " + key + "; expected " + expected);
  };
  std::string expected;
  double watts = 0;
  if (root.has("power")) {
    if (parse_power(power, watts, expected))
      s.watts = watts;
    else
      fail("power", power, expected);
  }
  if (!root.has("price")) return;
  Price price;
  if (!parse_price(price_text, price, expected))
    fail("price", price_text, expected);
  else if (price.a_gpu && (s.cluster || gpus_of(s) == 0))
    root.fail("price",
              "'" + shown_word(price_text) + "' is of each GPU, and " +
                  (s.cluster ? "a cluster's servers may differ" : "the scenario's machine has none") +
                  "; expected the price of the machine: '2.5 " + price.currency + "/h'");
  else
    s.price = price;
}

std::optional<Price> price_of(const Scenario& s) {
  if (!s.price || !s.price->a_gpu) return s.price;
  return Price{.per_hour = s.price->per_hour * gpus_of(s), .currency = s.price->currency};
}

ServiceRates service_rates(const Scenario& s, const Metrics& metrics, std::uint32_t instances) {
  ServiceRates rates{.watts = s.watts, .estimated = false, .price = price_of(s)};
  if (!rates.watts) {
    rates.watts = estimated_watts(s, metrics);
    rates.estimated = rates.watts.has_value();
  }
  if (rates.watts) *rates.watts *= instances;
  if (rates.price) rates.price->per_hour *= instances;
  return rates;
}

TokenCost token_cost(const ServiceRates& rates, double output_tokens_per_s, double input_tokens_per_s) {
  std::optional<double> money;  // by a million, times tokens a second
  if (rates.price) money = rates.price->per_hour / kSecondsAnHour * 1e6;
  const double all = output_tokens_per_s + input_tokens_per_s;
  return {.joules_out = by_token(rates.watts, output_tokens_per_s),
          .joules_all = by_token(rates.watts, all),
          .money_out = by_token(money, output_tokens_per_s),
          .money_all = by_token(money, all)};
}

}  // namespace moelab
