#include "models/hourly_rates.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "models/input_error.hpp"
#include "models/lower_case.hpp"

namespace moelab {
namespace {

constexpr double kMostWatts = 1e12, kMostAnHour = 1e9;

struct PowerUnit {
  std::string_view name;
  double watts;
};
constexpr std::array<PowerUnit, 3> kPowerUnits = {{{"W", 1}, {"kW", 1e3}, {"MW", 1e6}}};

/// Of ISO 4217, those in which machines are let.
constexpr std::array<std::string_view, 26> kCurrencies = {
    "USD", "EUR", "GBP", "CNY", "JPY", "KRW", "INR", "CHF", "CAD", "AUD", "SGD", "HKD", "TWD",
    "SEK", "NOK", "DKK", "PLN", "CZK", "BRL", "MXN", "ZAR", "ILS", "AED", "TRY", "NZD", "THB"};

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct NumberAndUnit {
  bool is_number = false;
  double number = 0;
  std::string digits, unit;
};

NumberAndUnit split_number(std::string_view text) {
  text = without_blanks(text);
  NumberAndUnit split;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, split.number);
  split.is_number = error == std::errc() && std::isfinite(split.number);
  split.digits = std::string(text.data(), rest);
  split.unit = without_blanks(std::string_view(rest, static_cast<std::size_t>(end - rest)));
  return split;
}

/// " (did you mean '2.5 USD/h'?)": the unit that is the same but for small and capital letters, or is
/// nearest; "" where the text has no number.
std::string nearest(const NumberAndUnit& split, const std::vector<std::string>& units) {
  if (!split.is_number || split.unit.empty()) return "";
  for (const std::string& unit : units)
    if (lower_case(unit) == lower_case(split.unit) && unit != split.unit)
      return " (did you mean '" + split.digits + " " + unit + "'?)";
  constexpr std::string_view kMeant = " (did you mean '";
  const std::string near = suggestion(split.unit, units);
  if (!near.starts_with(kMeant)) return "";
  return std::string(kMeant) + split.digits + " " + near.substr(kMeant.size());
}

std::vector<std::string> price_units() {
  std::vector<std::string> units;
  for (const std::string_view currency : kCurrencies)
    for (const char* of : {"/h", "/GPU/h"}) units.push_back(std::string(currency) + of);
  return units;
}

}  // namespace

bool parse_power(std::string_view text, double& watts, std::string& expected) {
  const NumberAndUnit split = split_number(text);
  std::vector<std::string> units;
  for (const PowerUnit& unit : kPowerUnits) {
    units.emplace_back(unit.name);
    if (!split.is_number || split.unit != unit.name) continue;
    const double value = split.number * unit.watts;
    if (value > 0 && value <= kMostWatts) {
      watts = value;
      return true;
    }
    expected = "a power above 0 and up to 1e6 MW";
    return false;
  }
  // A small m is milli: it says nothing of a machine, and a thousand million times as much is not meant.
  NumberAndUnit meant = split;
  if (meant.unit.starts_with('m')) meant.unit.erase(0, 1);
  expected = "a power with its unit, such as '700 W'" + nearest(meant, units);
  return false;
}

bool parse_price(std::string_view text, Price& price, std::string& expected) {
  const NumberAndUnit split = split_number(text);
  const std::vector<std::string> units = price_units();
  if (!split.is_number || std::ranges::find(units, split.unit) == units.end()) {
    expected = "a price an hour with its currency, such as '2.5 USD/h', or '2.5 USD/GPU/h' of each GPU" +
               nearest(split, units);
    return false;
  }
  if (!(split.number > 0 && split.number <= kMostAnHour)) {
    expected = "a price above 0 and up to 1e9 an hour";
    return false;
  }
  price = {split.number, split.unit.substr(0, 3), split.unit.ends_with("/GPU/h")};
  return true;
}

}  // namespace moelab
