#include "sim/serving/served_request.hpp"

#include <algorithm>
#include <string>

#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/arrival_times.hpp"
#include "sim/serving/drawn_lengths.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

std::vector<ServedRequest> logged(const WorkloadConfig& w) {
  std::vector<ServedRequest> requests;
  for (const RequestRecord& r : w.log)
    requests.push_back({.arrival_s = r.arrival_s,
                        .prompt_tokens = r.prompt_tokens,
                        .output_tokens = r.output_tokens,
                        .prefilled = w.prefilled});
  return requests;
}

/// Of drawn lengths.
std::vector<ServedRequest> mixed(const Scenario& s) {
  std::vector<ServedRequest> requests;
  const bool classes = has_classes(s.workload);
  for (const DrawnLengths& drawn : drawn_lengths(s.workload, s.seed))
    requests.push_back({.prompt_tokens = drawn.prompt_tokens,
                        .output_tokens = drawn.output_tokens,
                        .prefilled = s.workload.prefilled,
                        .of_class = classes ? drawn.of_class : kNoClass});
  return requests;
}

std::vector<ServedRequest> recorded(const Scenario& s, const RoutingTrace& trace) {
  std::vector<ServedRequest> requests;
  for (std::size_t i = 0; i < trace.requests().size(); ++i) {
    const ServedRequest request = trace_request(trace, i, prompts_of(s));
    if (request.output_tokens > 0) {
      requests.push_back(request);
    } else if (s.workload.prefilled) {
      throw InputError(s.workload.trace_file, "request " + std::to_string(i + 1) +
                                                  " has no rows but its prompt's, and the workload is "
                                                  "prefilled: there is nothing to serve of it");
    }
  }
  return requests;
}

void draw_arrivals(const Scenario& s, std::vector<ServedRequest>& requests) {
  if (s.workload.arrivals_per_s == 0) return;
  ArrivalsConfig config = s.workload.arrivals;
  if (config.ramp && config.ramp->over_s == 0)
    config.ramp->over_s = 2 * static_cast<double>(requests.size()) / (config.ramp->from + config.ramp->to);
  ArrivalTimes arrivals(config, s.workload.arrivals_per_s, s.seed);
  for (ServedRequest& request : requests) {
    const double now = arrivals.next();
    if (!(now <= kLatestArrival))
      throw InputError(s.name,
                       "workload.arrivals_per_s is so low that requests come later than 1e12 s; "
                       "expected more, or 0 for all at once");
    request.arrival_s = now;
  }
}

/// The rows that were drawn for request number i, or for one before it where there are more requests.
void give_rows(const RoutingTrace& trace, std::vector<ServedRequest>& requests) {
  const auto drawn = trace.requests();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const TraceRequest& of = drawn[i % drawn.size()];
    requests[i].pool_begin = of.begin;
    requests[i].pool_rows = of.end - of.begin;
  }
}

}  // namespace

ServedRequest trace_request(const RoutingTrace& trace, std::size_t number, const Prompts& prompts) {
  const TraceRequest& q = trace.requests()[number];
  const auto prompt = static_cast<std::uint32_t>(q.decode_begin - q.begin);
  const auto decoded = static_cast<std::uint32_t>(q.end - q.decode_begin);
  ServedRequest request{.prompt_tokens = prompt, .output_tokens = decoded, .first_row = q.begin};
  request.prefilled = prompts.prefilled || prompt == 0;
  request.encoded = prompts.encoded && !request.prefilled;
  request.encoder_tokens = prompts.encoded ? prompt : 0;
  // A decoder's first token comes with the prompt.
  if (!request.prefilled && !request.encoded) ++request.output_tokens;
  return request;
}

Prompts prompts_of(const Scenario& scenario) {
  return {.prefilled = scenario.workload.prefilled, .encoded = scenario.model.has_encoder()};
}

bool come_in_turn(const Scenario& scenario, const SystemConfig& system) {
  return !system.batching && !says_arrivals(scenario.workload);
}

bool serves_from_pool(const Scenario& scenario) {
  return scenario.workload.trace_file.empty() &&
         std::all_of(scenario.systems.begin(), scenario.systems.end(),
                     [](const SystemConfig& system) { return system.paging.has_value(); });
}

std::uint64_t spread_row(std::uint64_t number, std::uint64_t rows) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // its fraction, times 2^64
  return ((number * kGoldenRatio) >> 32) * rows >> 32;
}

std::vector<ServedRequest> served_requests(const Scenario& s, const RoutingTrace& trace) {
  const WorkloadConfig& w = s.workload;
  std::vector<ServedRequest> requests;
  if (!w.trace_file.empty()) {
    requests = recorded(s, trace);
  } else if (!w.log.empty()) {
    requests = logged(w);
  } else if (!w.mix.empty()) {
    requests = mixed(s);
  } else {
    requests.assign(
        w.requests,
        {.prompt_tokens = w.prompt_tokens, .output_tokens = w.output_tokens, .prefilled = w.prefilled});
  }
  if (w.log.empty()) draw_arrivals(s, requests);
  if (serves_from_pool(s))
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].first_row = spread_row(i, trace.tokens());
  else if (w.trace_file.empty())
    give_rows(trace, requests);
  return requests;
}

std::vector<std::uint16_t> request_classes(const Scenario& s) {
  std::vector<std::uint16_t> classes;
  if (!has_classes(s.workload)) return classes;
  for (const DrawnLengths& drawn : drawn_lengths(s.workload, s.seed)) classes.push_back(drawn.of_class);
  return classes;
}

}  // namespace moelab
