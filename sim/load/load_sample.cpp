#include "sim/load/load_sample.hpp"

#include <algorithm>

#include "models/json.hpp"

namespace moelab {

// Found by nlohmann::json by their names and arguments.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Summary, mean, p50, p90, p95, p99)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Backlog, came, started, answered, least_wait_s, half_s, residence_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClassSample, requests, answered, met, good, latencies, known)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LoadSample, requests, answered, preemptions, wall_s, tokens_per_s,
                                   input_tokens_per_s, latencies, known, service, classes, backlogs, met,
                                   good, holding, level_values, cause, place, cause_share, refusal, records)

namespace {

template <class Sample>
void set_latencies(const RequestLatencies& of, Sample& sample) {
  for (const Latency latency : kAllLatencies) {
    const auto i = static_cast<std::size_t>(latency);
    sample.known[i] = !of.of(latency).empty();
    sample.latencies[i] = summarize(of.of(latency));
  }
}

ClassSample class_sample(const Metrics& m, std::uint16_t of_class, const ServiceLevel& level) {
  ClassSample s;
  for (const RequestTimes& q : m.requests) {
    if (q.of_class != of_class) continue;
    const bool meeting = meets(q, level), in_time = answered_in_time(m, q);
    s.requests += q.measured ? 1 : 0;
    s.met += q.measured && meeting ? 1 : 0;
    s.answered += in_time ? 1 : 0;
    s.good += in_time && meeting ? 1 : 0;
  }
  set_latencies(class_latencies(m, of_class), s);
  return s;
}

}  // namespace

LoadSample sample_of(const RunResult& r, const ServiceLevel& level) {
  LoadSample s;
  const Metrics& m = r.metrics;
  const RequestTotals totals = request_totals(m);
  const RunRates rates = run_rates(m);
  s.requests = count_measured(m);
  s.answered = rates.answered;
  s.preemptions = totals.preemptions;
  s.wall_s = rates.seconds;
  s.service = r.service;
  s.tokens_per_s = rates.a_second(rates.output_tokens);
  s.input_tokens_per_s = rates.a_second(rates.input_tokens);
  const RequestLatencies latencies = request_latencies(m);
  set_latencies(latencies, s);
  for (std::size_t i = 0; i < r.classes.size(); ++i)
    s.classes.push_back(class_sample(m, static_cast<std::uint16_t>(i), level));
  s.backlogs = backlogs_of(m.requests);
  s.met = static_cast<std::uint64_t>(std::ranges::count_if(
      m.requests, [&](const RequestTimes& q) { return q.measured && meets(q, level); }));
  s.good = static_cast<std::uint64_t>(std::ranges::count_if(
      m.requests, [&](const RequestTimes& q) { return answered_in_time(m, q) && meets(q, level); }));
  for (const LevelClause& clause : level.clauses) {
    const RequestLatencies& of = clause.of_class ? class_latencies(m, *clause.of_class) : latencies;
    s.holding.push_back(holds(clause, of));
    s.level_values.push_back(value_of(clause, of).value_or(-1));
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
