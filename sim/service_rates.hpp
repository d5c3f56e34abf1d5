// What serving takes of what serves: watts and money.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "models/hourly_rates.hpp"

namespace moelab {

struct Metrics;
struct Scenario;
class YamlMap;

struct ServiceRates {
  /// While it serves, of all that computes; nothing where that is not known.
  std::optional<double> watts;
  bool estimated = false;  // from rated powers (kGpuPowerShare, kCpuPowerShare); else the scenario says it
  std::optional<Price> price;  // of the machine, never of a GPU; nothing where the scenario does not say
  bool any() const { return watts || price; }
};

// Between processes; nlohmann::json finds them by their arguments.
void to_json(nlohmann::json& j, const ServiceRates& rates);
void from_json(const nlohmann::json& j, ServiceRates& rates);

/// A scenario's keys `power` and `price`, after its machine was read; what is wrong is a problem of the map's
/// document.
void read_service_rates(const YamlMap& root, Scenario& scenario);

/// Of all that the scenario's machine has.
std::optional<Price> price_of(const Scenario& scenario);

/// Of a run. Power that the scenario does not say is estimated where requests come when they come and the
/// machine is of catalogue parts: of the GPUs that take part, and of the CPU where it computes experts or
/// there is no GPU. Nothing is estimated where one of these has no rated power. A system of several
/// `instances` takes as many times what the scenario's machine does, also where the scenario says it.
ServiceRates service_rates(const Scenario& scenario, const Metrics& metrics, std::uint32_t instances = 1);

/// What a token takes at a pace; nothing of what is not known, or where no token comes.
struct TokenCost {
  std::optional<double> joules_out, joules_all;  // by output token; by token, prompts' included
  std::optional<double> money_out, money_all;    // by a million of these, in the price's currency
};
/// Prompt tokens count whether they ran or were in the KV cache.
TokenCost token_cost(const ServiceRates& rates, double output_tokens_per_s, double input_tokens_per_s);

inline constexpr double kJoulesAKilowattHour = 3.6e6;
/// kWh by a million tokens, of joules by one.
constexpr double kilowatt_hours_a_million(double joules) {
  return joules * 1e6 / kJoulesAKilowattHour;
}

}  // namespace moelab
