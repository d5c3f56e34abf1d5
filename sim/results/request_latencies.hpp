// What requests met, by the names that serving engines' benchmarks have: TTFT, TPOT, ITL, end to end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

enum class Latency : std::uint8_t { ttft, tpot, itl, end_to_end, normalised, queueing };
inline constexpr std::size_t kLatencies = 6;
inline constexpr std::array<Latency, kLatencies> kAllLatencies = {
    Latency::ttft, Latency::tpot, Latency::itl, Latency::end_to_end, Latency::normalised, Latency::queueing};

/// How a table shows a latency: times this factor, with so many digits at most behind the point.
struct ShownLatency {
  Latency latency;
  const char* title;  // with the unit
  double scale;
  int digits;
};
/// In the order in which tables have them: those between tokens in milliseconds.
inline constexpr std::array<ShownLatency, 5> kShownLatencies = {{{Latency::ttft, "TTFT s", 1, 2},
                                                                 {Latency::tpot, "TPOT ms", 1e3, 1},
                                                                 {Latency::itl, "ITL ms", 1e3, 1},
                                                                 {Latency::end_to_end, "E2E s", 1, 2},
                                                                 {Latency::queueing, "queued s", 1, 2}}};

/// What a latency is called where one is named ("ttft") and where it heads a column ("TTFT").
struct LatencyName {
  std::string_view word, title;
};
inline constexpr std::array<LatencyName, kLatencies> kLatencyNames = {{{"ttft", "TTFT"},
                                                                       {"tpot", "TPOT"},
                                                                       {"itl", "ITL"},
                                                                       {"e2e", "E2E"},
                                                                       {"normalised", "E2E a token"},
                                                                       {"queueing", "queued"}}};
constexpr const LatencyName& latency_name(Latency latency) {
  return kLatencyNames[static_cast<std::size_t>(latency)];
}

/// In seconds, from its times: from arrival to first token; mean gap between its tokens; the longest gap;
/// from arrival to last token; that over its output tokens; from arrival to the first pass that ran some of
/// it. Negative where the request has none: it was not answered, or has no second token.
double latency_of(const RequestTimes& request, Latency latency);

/// A sample of each latency; empty where no request has it.
struct RequestLatencies {
  std::array<std::vector<double>, kLatencies> seconds;
  const std::vector<double>& of(Latency latency) const { return seconds[static_cast<std::size_t>(latency)]; }
};
/// Of a run: a value for each answered request that is measured (TTFT: for each that has a first token), of
/// ITL one for each gap.
RequestLatencies request_latencies(const Metrics& metrics);
/// The same of the requests of one class.
RequestLatencies class_latencies(const Metrics& metrics, std::uint16_t of_class);

/// What a run's answered requests add up to.
struct RequestTotals {
  std::uint64_t answered = 0, input_tokens = 0, output_tokens = 0;
  std::uint64_t preemptions = 0;  // of all that were begun and are measured
};
RequestTotals request_totals(const Metrics& metrics);

/// Of the prompt tokens of measured requests, the share that was in the KV cache when they were first
/// admitted (vLLM: prefix cache hit rate); of one class, or of all. 0 without requests.
std::optional<double> prefix_hit_rate(const Metrics& metrics, std::optional<std::uint16_t> of_class = {});

/// What was done in the seconds that a run's statistics are of: in all of it, or in the measured part.
struct RunRates {
  double seconds = 0;
  std::uint64_t answered = 0, input_tokens = 0;  // requests that were answered then, and their prompts
  std::uint64_t output_tokens = 0;               // generated; in a part: of the requests answered then
  /// 0 where no time passed.
  double a_second(std::uint64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  }
};
RunRates run_rates(const Metrics& metrics);
/// Requests that statistics are of.
std::uint64_t count_measured(const Metrics& metrics);
/// Whether a request, measured or not, was answered in those seconds.
bool answered_in_time(const Metrics& metrics, const RequestTimes& request);

}  // namespace moelab
