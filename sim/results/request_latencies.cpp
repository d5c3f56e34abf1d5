#include "sim/results/request_latencies.hpp"

#include <algorithm>

namespace moelab {

double latency_of(const RequestTimes& r, Latency latency) {
  if (latency == Latency::ttft) return r.first_token_s < 0 ? -1 : r.first_token_s - r.arrival_s;
  if (!r.answered()) return -1;
  switch (latency) {
    case Latency::ttft:
      break;
    case Latency::tpot:
      return r.output_tokens < 2 ? -1 : (r.end_s - r.first_token_s) / (r.output_tokens - 1);
    case Latency::itl:
      return r.longest_gap_s;
    case Latency::end_to_end:
      return r.end_s - r.arrival_s;
    case Latency::normalised:
      return (r.end_s - r.arrival_s) / r.output_tokens;
    case Latency::queueing:
      return r.started_s - r.arrival_s;
  }
  return -1;
}

RequestLatencies request_latencies(const Metrics& m) {
  RequestLatencies all;
  for (const Latency latency : kAllLatencies) {
    std::vector<double>& sample = all.seconds[static_cast<std::size_t>(latency)];
    if (latency == Latency::ttft) {
      sample = m.ttft_s;
    } else if (latency == Latency::itl) {
      sample = m.token_gaps_s;
    } else if (latency == Latency::end_to_end) {
      sample = m.end_to_end_s;
    } else {
      for (const RequestTimes& request : m.requests)
        if (const double s = latency_of(request, latency); s >= 0 && request.measured) sample.push_back(s);
    }
  }
  return all;
}

RequestLatencies class_latencies(const Metrics& m, std::uint16_t of_class) {
  RequestLatencies all;
  for (const Latency latency : kAllLatencies) {
    std::vector<double>& sample = all.seconds[static_cast<std::size_t>(latency)];
    if (latency == Latency::itl) {
      for (std::size_t i = 0; i < m.gap_classes.size(); ++i)
        if (m.gap_classes[i] == of_class) sample.push_back(m.token_gaps_s[i]);
      continue;
    }
    for (const RequestTimes& request : m.requests) {
      if (request.of_class != of_class || !request.measured) continue;
      if (const double s = latency_of(request, latency); s >= 0) sample.push_back(s);
    }
  }
  return all;
}

std::uint64_t count_measured(const Metrics& m) {
  return static_cast<std::uint64_t>(std::ranges::count(m.requests, true, &RequestTimes::measured));
}

RunRates run_rates(const Metrics& m) {
  RunRates rates;
  if (m.measured.whole) {
    const RequestTotals totals = request_totals(m);
    rates = {m.wall_s, totals.answered, totals.input_tokens, m.tokens};
    return rates;
  }
  rates.seconds = m.measured.end_s - m.measured.begin_s;
  for (const RequestTimes& request : m.requests) {
    if (!answered_in_time(m, request)) continue;
    ++rates.answered;
    rates.input_tokens += request.prompt_tokens;
    rates.output_tokens += request.output_tokens;
  }
  return rates;
}

bool answered_in_time(const Metrics& m, const RequestTimes& request) {
  if (!request.answered() || m.measured.whole) return request.answered();
  return request.end_s > m.measured.begin_s && request.end_s <= m.measured.end_s;
}

std::optional<double> prefix_hit_rate(const Metrics& m, std::optional<std::uint16_t> of_class) {
  std::uint64_t cached = 0, all = 0;
  for (const RequestTimes& request : m.requests) {
    if (!request.measured || (of_class && request.of_class != *of_class)) continue;
    cached += request.cached_tokens;
    all += request.prompt_tokens;
  }
  if (all == 0) return std::nullopt;
  return static_cast<double>(cached) / static_cast<double>(all);
}

RequestTotals request_totals(const Metrics& m) {
  RequestTotals all;
  for (const RequestTimes& request : m.requests) {
    if (request.measured) all.preemptions += request.preempted;
    if (!request.answered()) continue;
    ++all.answered;
    all.input_tokens += request.prompt_tokens;
    all.output_tokens += request.output_tokens;
  }
  return all;
}

}  // namespace moelab
