#include "sim/load/load_sample.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/json.hpp"

namespace moelab {

// Found by nlohmann::json by their names and arguments.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Summary, mean, p50, p90, p95, p99)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Backlog, came, answered, span_s, residence_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LoadSample, requests, answered, preemptions, wall_s, tokens_per_s,
                                   input_tokens_per_s, latencies, known, backlog, met, good, holding,
                                   limited_s, bound_by, refusal)

Backlog backlog_of(const std::vector<RequestTimes>& requests) {
  Backlog b;
  if (requests.empty()) return b;
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const RequestTimes& q : requests) {
    if (!q.measured) continue;
    first = std::min(first, q.arrival_s);
    last = std::max(last, q.arrival_s);
  }
  if (first > last) return b;
  const double half = (first + last) / 2;
  std::vector<double> residences;
  for (const RequestTimes& q : requests) {
    if (q.arrival_s > half && q.measured) ++b.came;
    if (!q.answered()) continue;
    if (q.end_s > half && q.end_s <= last) ++b.answered;
    if (q.measured) residences.push_back(q.end_s - q.started_s);
  }
  b.span_s = last - first;
  b.residence_s = summarize(std::move(residences)).p50;
  return b;
}

std::string to_string(LoadVerdict verdict) {
  switch (verdict) {
    case LoadVerdict::steady:
      return "steady";
    case LoadVerdict::saturated:
      return "saturated";
    case LoadVerdict::unsettled:
      return "unsettled";
  }
  return "";
}

LoadVerdict verdict_of(const std::vector<Backlog>& backlogs, double dispersion) {
  double came = 0, answered = 0;
  for (const Backlog& b : backlogs) {
    if (b.residence_s > b.span_s / 4) return LoadVerdict::unsettled;
    came += static_cast<double>(b.came);
    answered += static_cast<double>(b.answered);
  }
  const double chance = 3 * std::sqrt(dispersion * came);
  return came - answered > std::max(0.05 * came, chance) ? LoadVerdict::saturated : LoadVerdict::steady;
}

LoadSample sample_of(const RunResult& r, const ServiceLevel& level) {
  LoadSample s;
  const Metrics& m = r.metrics;
  const RequestTotals totals = request_totals(m);
  const RunRates rates = run_rates(m);
  s.requests = count_measured(m);
  s.answered = rates.answered;
  s.preemptions = totals.preemptions;
  s.wall_s = rates.seconds;
  s.tokens_per_s = rates.a_second(rates.output_tokens);
  s.input_tokens_per_s = rates.a_second(rates.input_tokens);
  const RequestLatencies latencies = request_latencies(m);
  for (const Latency latency : kAllLatencies) {
    const auto i = static_cast<std::size_t>(latency);
    s.known[i] = !latencies.of(latency).empty();
    s.latencies[i] = summarize(latencies.of(latency));
  }
  s.backlog = backlog_of(m.requests);
  s.met = static_cast<std::uint64_t>(std::ranges::count_if(
      m.requests, [&](const RequestTimes& q) { return q.measured && meets(q, level); }));
  s.good = static_cast<std::uint64_t>(std::ranges::count_if(
      m.requests, [&](const RequestTimes& q) { return answered_in_time(m, q) && meets(q, level); }));
  for (const LevelClause& clause : level.clauses) {
    const RequestLatencies limited = clause.of_class ? class_latencies(m, *clause.of_class) : latencies;
    s.holding.push_back(holds(clause, limited));
    s.limited_s.push_back(value_of(clause, limited).value_or(-1));
  }
  return s;
}

std::string pack_sample(const LoadSample& sample) {
  return nlohmann::json(sample).dump();
}

LoadSample unpack_sample(const std::string& text) {
  return nlohmann::json::parse(text).get<LoadSample>();
}

}  // namespace moelab
