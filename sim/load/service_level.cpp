#include "sim/load/service_level.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "models/input_error.hpp"
#include "models/lower_case.hpp"
#include "models/physical_bounds.hpp"
#include "models/units.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// Of a clause that is wrong; caught where the whole level is read.
struct ClauseError {
  std::string what;
};

Latency latency_named(const std::string& word, const std::vector<std::string>& classes) {
  std::vector<std::string> known;
  for (const Latency latency : kAllLatencies) {
    known.emplace_back(latency_name(latency).word);
    if (known.back() == word) return latency;
  }
  known.insert(known.end(), classes.begin(), classes.end());
  const std::string what = classes.empty() ? "there is no latency '" : "there is no latency or class '";
  throw ClauseError{what + shown_word(word) + "'" + suggestion(word, known)};
}

std::optional<double> statistic_named(const std::string& word) {
  if (word == "mean") return std::nullopt;
  double percent = 0;
  const char* const end = word.data() + word.size();
  if (!word.empty() && word.front() == 'p') {
    const auto [rest, error] = std::from_chars(word.data() + 1, end, percent);
    if (error == std::errc() && rest == end && percent > 0 && percent < 100) return percent / 100;
  }
  throw ClauseError{"'" + shown_word(word) +
                    "' is no statistic of a latency; expected mean, or a percentile "
                    "between p0 and p100 such as p95 or p99.9"};
}

LevelClause parse_clause(const std::string& text, const std::vector<std::string>& classes) {
  const std::size_t below = text.find('<');
  if (below == std::string::npos)
    throw ClauseError{"'" + shown_word(text) + "' says no limit; expected one such as 'ttft p95 < 500 ms'"};
  std::istringstream words(text.substr(0, below));
  std::string latency, statistic, more;
  words >> latency;
  LevelClause clause;
  if (const auto found = std::ranges::find(classes, latency); found != classes.end()) {
    clause.of_class = static_cast<std::uint16_t>(found - classes.begin());
    clause.class_name = latency;
    latency.clear();
    words >> latency;
  }
  words >> statistic >> more;
  latency = lower_case(latency);  // "TTFT P95"
  statistic = lower_case(statistic);
  clause.latency = latency_named(latency, classes);
  if (statistic.empty())
    throw ClauseError{"'" + latency + "' says neither mean nor a percentile; expected '" + latency +
                      " p95 < ...' or '" + latency + " mean < ...'"};
  clause.quantile = statistic_named(statistic);
  if (!more.empty())
    throw ClauseError{"'" + shown_word(more) + "' stands behind '" + statistic + "'; expected '<'"};
  Seconds limit;
  std::string expected;
  const std::string value = trimmed(text.substr(below + (text[below + 1] == '=' ? 2 : 1)));
  if (value.find('<', 1) != value.npos && value.front() != '<')
    throw ClauseError{
        "'" + shown_word(text) +
        "' has two limits; expected ',' between conditions, as in 'ttft p95 < 500 ms, tpot p99 < "
        "50 ms'"};
  if (!parse(value, limit, expected))
    throw ClauseError{"the limit of " + latency + " is '" + shown_word(value) + "'; expected " + expected};
  if (limit.value() <= 0) throw ClauseError{"the limit of " + latency + " is not above 0"};
  if (const std::string beyond = beyond_physical(limit); !beyond.empty())
    throw ClauseError{"the limit of " + latency + ", '" + shown_word(value) + "'," + beyond};
  clause.limit_s = limit.value();
  return clause;
}

}  // namespace

ServiceLevel parse_service_level(const std::string& option, const std::string& text,
                                 const std::vector<std::string>& classes) {
  std::string separated = text;
  std::ranges::replace(separated, ';', ',');
  ServiceLevel level{.clauses = {}, .text = trimmed(separated)};
  Problems problems;
  for (const std::string& name : classes)
    for (const Latency latency : kAllLatencies)
      if (latency_name(latency).word == lower_case(name))
        problems.add({.file = option,
                      .what = "a class of the workload is called '" + name +
                              "' as a latency is; expected another name for it"});
  std::istringstream parts(separated + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    try {
      const LevelClause clause = parse_clause(trimmed(part), classes);
      for (const LevelClause& other : level.clauses)
        if (other.latency == clause.latency && other.quantile == clause.quantile &&
            other.of_class == clause.of_class)
          throw ClauseError{"'" + trimmed(part) + "' limits what '" + to_string(other) + "' limits already"};
      level.clauses.push_back(clause);
    } catch (const ClauseError& error) {
      problems.add({.file = option, .what = error.what});
    }
  }
  problems.throw_if_any();
  return level;
}

std::string to_string(const LevelClause& clause) {
  std::ostringstream text;
  if (clause.of_class) text << clause.class_name << ' ';
  text << latency_name(clause.latency).word << ' ';
  if (clause.quantile)
    text << 'p' << 100 * *clause.quantile;
  else
    text << "mean";
  if (clause.limit_s < 1)
    text << " < " << 1e3 * clause.limit_s << " ms";
  else
    text << " < " << clause.limit_s << " s";
  return text.str();
}

std::optional<double> value_of(const LevelClause& clause, const RequestLatencies& latencies) {
  std::vector<double> sample = latencies.of(clause.latency);
  if (sample.empty()) return std::nullopt;
  if (!clause.quantile) return mean(sample);
  std::sort(sample.begin(), sample.end());
  return quantile(sample, *clause.quantile);
}

bool holds(const LevelClause& clause, const RequestLatencies& latencies) {
  const std::optional<double> value = value_of(clause, latencies);
  return !value || *value < clause.limit_s;
}

bool meets(const RequestTimes& request, const ServiceLevel& level) {
  return request.answered() && std::ranges::all_of(level.clauses, [&](const LevelClause& clause) {
           if (clause.of_class && *clause.of_class != request.of_class) return true;
           return latency_of(request, clause.latency) < clause.limit_s;  // negative: it has none
         });
}

}  // namespace moelab
