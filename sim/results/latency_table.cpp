#include "sim/results/latency_table.hpp"

#include <algorithm>

#include "sim/results/request_latencies.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/steady_state.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void add_latencies(const std::string& name, const RequestLatencies& all, Rows& rows) {
  for (const ShownLatency& shown : kShownLatencies) {
    const std::vector<double>& sample = all.of(shown.latency);
    const Summary s = summarize(sample);
    std::vector<std::string> row = {&shown == &kShownLatencies.front() ? name : "", shown.title};
    for (const double seconds : {s.mean, s.p50, s.p90, s.p95, s.p99})
      row.push_back(sample.empty() ? "-" : three_digits(shown.scale * seconds, shown.digits));
    rows.push_back(std::move(row));
  }
}

std::vector<std::string> rates_of(const RunResult& r) {
  const RequestTotals totals = request_totals(r.metrics);
  const RunRates rates = run_rates(r.metrics);
  const auto a_second = [&](std::uint64_t n) {
    return rates.seconds > 0 ? three_digits(rates.a_second(n), 2) : std::string("-");
  };
  return {r.system,
          a_second(rates.answered),
          a_second(rates.input_tokens),
          a_second(rates.output_tokens),
          totals.answered == 0
              ? "-"
              : three_digits(1e3 * mean(request_latencies(r.metrics).of(Latency::normalised)), 1),
          std::to_string(totals.preemptions)};
}

/// A column of the prompt tokens that were found in the KV cache, where any result counts them.
void add_prefix_hits(const std::vector<const RunResult*>& results, Rows& rates) {
  if (std::ranges::none_of(results, [](const RunResult* r) { return r->counted.prefixes; })) return;
  rates.front().emplace_back("prefix hits %");
  std::size_t row = 1;
  for (const RunResult* r : results) {
    if (r->metrics.requests.size() < 2) continue;
    const auto rate = r->counted.prefixes ? prefix_hit_rate(r->metrics) : std::nullopt;
    rates[row++].push_back(rate ? percent(*rate, 1) : "-");
  }
}

/// Which part of a run its statistics are of; "" for all of it.
std::string measured_line(const RunResult& r) {
  const Metrics& m = r.metrics;
  if (m.measured.whole) return "";
  const SteadyState state = steady_state(m.requests, m.measured.begin_s, m.measured.end_s);
  std::string line = r.system + ": measured from " + fixed(m.measured.begin_s, 1) + " to " +
                     fixed(m.measured.end_s, 1) + " s, " + std::to_string(count_measured(m)) + " of " +
                     std::to_string(m.requests.size()) + " requests; " + to_string(state.verdict) + ": ";
  if (state.verdict == SteadyVerdict::unsettled)
    return line + "half of them stay longer than a quarter of that time\n";
  return line + fixed(state.first_half, 2) + " requests in the system in the first half of that time, " +
         fixed(state.second_half, 2) + " in the second\n";
}

}  // namespace

std::vector<TextTable> latency_tables(const std::vector<const RunResult*>& results) {
  Rows latencies = {{"latency of requests", "", "mean", "p50", "p90", "p95", "p99"}};
  Rows rates = {{"rates", "requests/s", "tokens/s in", "tokens/s out", "E2E ms a token", "preemptions"}};
  for (const RunResult* r : results) {
    if (r->metrics.requests.size() < 2) continue;
    add_latencies(r->system, request_latencies(r->metrics), latencies);
    for (std::size_t i = 0; i < r->classes.size(); ++i)
      add_latencies("  " + r->classes[i], class_latencies(r->metrics, static_cast<std::uint16_t>(i)),
                    latencies);
    rates.push_back(rates_of(*r));
  }
  add_prefix_hits(results, rates);
  return {{latencies, 2}, {rates, 1}};
}

std::string measured_lines(const std::vector<RunResult>& results) {
  std::string lines;
  for (const RunResult& r : results) lines += measured_line(r);
  return lines;
}

}  // namespace moelab
