#include "sim/sweep/goal_metric.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include "models/input_error.hpp"
#include "models/physical_bounds.hpp"
#include "models/units.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

using Kind = GoalMetric::Kind;

struct NamedMetric {
  std::string_view name;
  Kind kind;
  std::string_view unit;
};
constexpr std::array<NamedMetric, 4> kMetrics = {{{"tokens_per_s", Kind::tokens_rate, "tokens/s"},
                                                  {"input_tokens_per_s", Kind::input_rate, "tokens/s"},
                                                  {"requests_per_s", Kind::requests_rate, "requests/s"},
                                                  {"hits", Kind::hits, "%"}}};

const NamedMetric& named(Kind kind) {
  return *std::find_if(kMetrics.begin(), kMetrics.end(),
                       [kind](const NamedMetric& m) { return m.kind == kind; });
}

bool read_number(std::string_view text, double& number, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return false;
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return true;
}

std::optional<double> quantile_named(const std::string& option, const std::string& word) {
  if (word.empty() || word == "mean") return std::nullopt;
  double percent = 0;
  std::string_view rest;
  if (word.front() == 'p' && read_number(std::string_view(word).substr(1), percent, rest) && rest.empty() &&
      percent > 0 && percent < 100)
    return percent / 100;
  throw InputError(option,
                   "'" + shown_word(word) +
                       "' is no statistic of a latency; expected mean, or a percentile between p0 and "
                       "p100 such as p95");
}

std::string without_blanks_around(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

double time_limit(const std::string& option, const std::string& text) {
  Seconds limit;
  std::string expected;
  if (!parse(text, limit, expected))
    throw InputError(option, "the limit is '" + shown_word(text) + "'; expected " + expected);
  if (const std::string beyond = beyond_physical(limit); !beyond.empty())
    throw InputError(option, "the limit, '" + shown_word(text) + "'," + beyond);
  return limit.value();
}

/// A number with the metric's unit or none; a share also as percent.
double number_limit(const std::string& option, const std::string& text, const NamedMetric& metric) {
  double number = 0;
  std::string_view rest;
  if (!read_number(text, number, rest) || (!rest.empty() && rest != metric.unit))
    throw InputError(option, "the limit is '" + shown_word(text) + "'; expected a number such as '" +
                                 (metric.kind == Kind::hits ? "80 %" : "12 " + std::string(metric.unit)) +
                                 "'");
  if (metric.kind != Kind::hits) return number;
  const double share = rest == "%" ? number / 100 : number;
  if (share > 1)
    throw InputError(option,
                     "the limit is '" + shown_word(text) + "'; expected a share of 1 at most, or as '80 %'");
  return share;
}

}  // namespace

GoalMetric parse_goal_metric(const std::string& option, const std::string& text) {
  std::istringstream words(text);
  std::string name, statistic, more;
  words >> name >> statistic >> more;
  GoalMetric metric{.text = without_blanks_around(text)};
  std::vector<std::string> known;
  for (const NamedMetric& one : kMetrics) {
    known.emplace_back(one.name);
    if (name != one.name) continue;
    if (!statistic.empty())
      throw InputError(option,
                       "'" + shown_word(statistic) + "' stands behind '" + name + "', which is one number");
    metric.kind = one.kind;
    return metric;
  }
  for (const Latency latency : kAllLatencies) {
    known.emplace_back(latency_name(latency).word);
    if (name != latency_name(latency).word) continue;
    if (!more.empty())
      throw InputError(option, "'" + shown_word(more) + "' stands behind '" + statistic + "'");
    metric.latency = latency;
    metric.quantile = quantile_named(option, statistic);
    return metric;
  }
  // "tokens/s" is how people write tokens_per_s.
  std::string spelled = name;
  if (spelled.ends_with("/s")) spelled.replace(spelled.size() - 2, 2, "_per_s");
  throw InputError(option, "there is no metric '" + shown_word(name) + "'" + suggestion(spelled, known));
}

std::optional<double> value_of(const GoalMetric& metric, const RunResult& r, State kept_as) {
  const RunRates rates = run_rates(r.metrics);
  const auto a_second = [&](std::uint64_t count) {
    return rates.seconds > 0 ? std::optional(rates.a_second(count)) : std::nullopt;
  };
  switch (metric.kind) {
    case Kind::tokens_rate:
      return a_second(rates.output_tokens);
    case Kind::input_rate:
      return a_second(rates.input_tokens);
    case Kind::requests_rate:
      return a_second(rates.answered);
    case Kind::hits: {
      const auto& found = r.metrics.decode_hits;
      const auto all = std::accumulate(found.begin(), found.end(), std::uint64_t{0});
      if (all == 0) return std::nullopt;
      return static_cast<double>(found[index(kept_as)]) / static_cast<double>(all);
    }
    case Kind::latency:
      break;
  }
  std::vector<double> sample = request_latencies(r.metrics).of(metric.latency);
  if (sample.empty()) return std::nullopt;
  if (!metric.quantile) return mean(sample);
  std::sort(sample.begin(), sample.end());
  return quantile(sample, *metric.quantile);
}

std::string shown_value(const GoalMetric& metric, double value) {
  if (metric.kind == Kind::latency) return to_string(Seconds(value));
  if (metric.kind == Kind::hits) return fixed(100 * value, 1) + " %";
  return three_digits(value, 2) + " " + std::string(named(metric.kind).unit);
}

GoalCondition parse_goal_condition(const std::string& option, const std::string& text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign == text.npos)
    throw InputError(option,
                     "'" + shown_word(text) + "' says no limit; expected one such as 'tpot < 100 ms'");
  GoalCondition condition{.metric = parse_goal_metric(option, text.substr(0, sign)),
                          .below = text[sign] == '<',
                          .with_limit = text.compare(sign + 1, 1, "=") == 0,
                          .text = without_blanks_around(text)};
  const std::string limit = without_blanks_around(text.substr(sign + (condition.with_limit ? 2 : 1)));
  if (limit.find_first_of("<>") != limit.npos)
    throw InputError(option,
                     "'" + shown_word(text) +
                         "' has more than one condition; expected one; ask for each by itself: all hold "
                         "where all answers do");
  condition.limit = condition.metric.kind == Kind::latency
                        ? time_limit(option, limit)
                        : number_limit(option, limit, named(condition.metric.kind));
  if (!(condition.limit > 0))
    throw InputError(option, "the limit, '" + shown_word(limit) + "', is not above 0");
  return condition;
}

}  // namespace moelab
