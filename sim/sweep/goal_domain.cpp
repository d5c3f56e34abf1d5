#include "sim/sweep/goal_domain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <variant>

#include "models/input_error.hpp"
#include "models/units.hpp"
#include "sim/results/text_table.hpp"
#include "sim/sweep/expression.hpp"

namespace moelab {
namespace {

constexpr double kLeastSteps = 100;     // between the ends, by default
constexpr double kMostSteps = 1e6;      // that may be asked for
constexpr double kAround = 4;           // times the value that the scenario has
constexpr double kRounding = 1 + 1e-9;  // of steps that were multiplied

/// A number with its unit, as written.
struct Written {
  double value = 0;
  std::string unit;
  Measure measure;
};

std::optional<Written> written(const std::string& text) {
  const Value value = value_of_text(text);
  const auto* const measure = std::get_if<Measure>(&value);
  if (measure == nullptr || !std::isfinite(measure->value)) return std::nullopt;
  const std::size_t blank = text.find_last_not_of("/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  std::string unit =
      measure->unit == Measure::Unit::none ? "" : text.substr(blank == text.npos ? 0 : blank + 1);
  const Value one = value_of_text(unit.empty() ? "1" : "1 " + unit);
  const auto* const scale = std::get_if<Measure>(&one);
  if (scale == nullptr || scale->unit != measure->unit) return std::nullopt;
  return Written{measure->value / scale->value, unit, *measure};
}

Written read(const std::string& option, const std::string& text) {
  const std::optional<Written> read = written(text);
  if (!read)
    throw InputError(option + " " + text,
                     "expected a number, with its unit where the key has one, such as '16 GB'");
  return *read;
}

/// In the domain's unit.
double in_unit(const std::string& option, const std::string& text, const GoalDomain& d, Measure::Unit unit) {
  const Written value = read(option, text);
  if (value.measure.unit != unit)
    throw InputError(option + " " + text, "is of another kind than the other values; expected a number" +
                                              (d.unit.empty() ? std::string(" without a unit")
                                                              : " in " + d.unit + " or the like"));
  return value.unit == d.unit ? value.value : value.measure.value / d.scale;
}

/// 1, 2 or 5 times a power of ten, the largest of which at least kLeastSteps fit.
double round_step(double span) {
  const double most = span / kLeastSteps;
  const double power = std::pow(10.0, std::floor(std::log10(most)));
  for (const double times : {5.0, 2.0})
    if (times * power <= most * kRounding) return times * power;
  return power;
}

/// Twelve digits: what multiplying is off by is not meant.
double twelve_digits(double value) {
  return significant_digits(value, 12);
}

void set_step(const AskedDomain& asked, Measure::Unit unit, GoalDomain& d) {
  if (asked.step.empty())
    d.step = d.whole ? std::max(1.0, std::ceil((d.high - d.low) / kMostSteps)) : round_step(d.high - d.low);
  else
    d.step = in_unit("--step", asked.step, d, unit);
  if (!(d.step > 0) || (d.whole && d.step != std::trunc(d.step)))
    throw InputError("--step " + asked.step,
                     d.whole ? "expected a whole number above 0" : "expected a value above 0");
  if ((d.high - d.low) / d.step > kMostSteps)
    throw InputError("--step " + asked.step, "there are more than a million steps between --from and --to");
}

void check_whole(const std::string& option, double value, const GoalDomain& d) {
  if (d.whole && value != std::trunc(value))
    throw InputError(option + " " + shortest_text(value),
                     "expected a whole number, as the key takes no other");
}

}  // namespace

std::size_t GoalDomain::last() const {
  if (!values.empty()) return values.size() - 1;
  return static_cast<std::size_t>(std::ceil((high - low) / step / kRounding));
}

double GoalDomain::at(std::size_t place) const {
  if (!values.empty()) return values.at(place);
  return place >= last() ? high : twelve_digits(low + step * static_cast<double>(place));
}

std::string GoalDomain::text(std::size_t place) const {
  return shortest_text(at(place)) + (unit.empty() ? "" : " " + unit);
}

std::string GoalDomain::shown(std::size_t place) const {
  const double value = at(place);
  if (whole || value == 0) return text(place);
  const double told_apart = std::floor(std::log10(std::abs(value))) - std::floor(std::log10(step)) + 1;
  const int digits = static_cast<int>(std::clamp(told_apart, 4.0, 12.0));
  return shortest_text(significant_digits(value, digits)) + (unit.empty() ? "" : " " + unit);
}

GoalDomain goal_domain(const AskedDomain& asked) {
  const std::optional<Written> now = asked.now.empty() ? std::nullopt : written(asked.now);
  if (!asked.now.empty() && !now)
    throw InputError("moelab tune",
                     "the scenario has '" + shown_word(asked.now) + "' there, which is no number");
  if ((asked.from.empty() || asked.to.empty()) && (!now || !(now->measure.value > 0)))
    throw InputError(asked.from.empty() ? "--from" : "--to",
                     "is missing: the scenario has no number at '" + shown_word(asked.key) +
                         "' to look around; expected --from and --to, or a key as 'moelab keys' lists it");
  const Written first = !asked.from.empty() ? read("--from", asked.from)
                        : !asked.to.empty() ? read("--to", asked.to)
                                            : *now;
  if (now && now->measure.unit != first.measure.unit)
    throw InputError(asked.from.empty() ? "--to " + asked.to : "--from " + asked.from,
                     "is of another kind than the scenario's value, '" + shown_word(asked.now) + "'");
  GoalDomain d;
  d.unit = first.unit;
  d.scale = first.unit.empty() ? 1 : std::get<Measure>(value_of_text("1 " + first.unit)).value;
  d.whole = asked.whole;
  const auto end = [&](const std::string& option, const std::string& text, double times) {
    if (!text.empty()) return in_unit(option, text, d, first.measure.unit);
    const double around = times * in_unit(option, asked.now, d, first.measure.unit);
    return d.whole ? std::max(1.0, std::round(around)) : twelve_digits(around);
  };
  d.low = end("--from", asked.from, 1 / kAround);
  d.high = end("--to", asked.to, kAround);
  const double most = asked.most.empty() ? std::numeric_limits<double>::infinity()
                                         : in_unit("--to", asked.most, d, first.measure.unit);
  if (asked.to.empty()) d.high = std::min(d.high, most);
  d.high_is_most = d.high >= most;
  check_whole("--from", d.low, d);
  check_whole("--to", d.high, d);
  const auto shown_end = [&](double value) {
    return shortest_text(value) + (d.unit.empty() ? "" : " " + d.unit);
  };
  if (asked.to.empty() && d.low >= most)
    throw InputError("--from " + asked.from,
                     "is no less than all that the machine has to give, " + shown_end(most));
  if (!(d.low < d.high))
    throw InputError((asked.to.empty() ? "--from " + shown_end(d.low) : "--to " + shown_end(d.high)),
                     asked.to.empty()
                         ? "expected less than the end, " + shown_end(d.high) + ", or --to with it"
                         : "expected more than --from, " + shown_end(d.low));
  set_step(asked, first.measure.unit, d);
  return d;
}

}  // namespace moelab
