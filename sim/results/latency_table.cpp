#include "sim/results/latency_table.hpp"

#include "sim/results/request_latencies.hpp"
#include "sim/results/statistics.hpp"
#include "sim/results/text_table.hpp"

namespace moelab {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// How a latency is shown: those between tokens in milliseconds.
struct Shown {
  Latency latency;
  const char* title;
  double scale;
  int digits;
};
constexpr std::array<Shown, 5> kShown = {{{Latency::ttft, "TTFT s", 1, 2},
                                          {Latency::tpot, "TPOT ms", 1e3, 1},
                                          {Latency::itl, "ITL ms", 1e3, 1},
                                          {Latency::end_to_end, "E2E s", 1, 2},
                                          {Latency::queueing, "queued s", 1, 2}}};

void add_latencies(const RunResult& r, Rows& rows) {
  const RequestLatencies all = request_latencies(r.metrics);
  for (const Shown& shown : kShown) {
    const std::vector<double>& sample = all.of(shown.latency);
    const Summary s = summarize(sample);
    std::vector<std::string> row = {&shown == &kShown.front() ? r.system : "", shown.title};
    for (const double seconds : {s.mean, s.p50, s.p90, s.p95, s.p99})
      row.push_back(sample.empty() ? "-" : fixed(shown.scale * seconds, shown.digits));
    rows.push_back(std::move(row));
  }
}

std::vector<std::string> rates_of(const RunResult& r) {
  const RequestTotals totals = request_totals(r.metrics);
  const auto a_second = [&](std::uint64_t n) {
    return r.metrics.wall_s > 0 ? fixed(static_cast<double>(n) / r.metrics.wall_s, 2) : std::string("-");
  };
  return {
      r.system,
      a_second(totals.answered),
      a_second(totals.input_tokens),
      a_second(r.metrics.tokens),
      totals.answered == 0 ? "-" : fixed(1e3 * mean(request_latencies(r.metrics).of(Latency::normalised)), 1),
      std::to_string(totals.preemptions)};
}

}  // namespace

std::string latency_tables(const std::vector<const RunResult*>& results) {
  Rows latencies = {{"latency of requests", "", "mean", "p50", "p90", "p95", "p99"}};
  Rows rates = {{"rates", "requests/s", "tokens/s in", "tokens/s out", "E2E ms a token", "preemptions"}};
  for (const RunResult* r : results) {
    if (r->metrics.requests.size() < 2) continue;
    add_latencies(*r, latencies);
    rates.push_back(rates_of(*r));
  }
  if (rates.size() == 1) return "";
  return align_columns(latencies, 2) + "\n" + align_columns(rates, 1) + "\n";
}

}  // namespace moelab
