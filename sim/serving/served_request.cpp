#include "sim/serving/served_request.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "models/input_error.hpp"
#include "sim/scenario.hpp"
#include "sim/serving/arrival_times.hpp"
#include "sim/serving/drawn_lengths.hpp"
#include "traces/portable_math.hpp"
#include "traces/random.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {
namespace {

constexpr std::uint64_t kTurnThinkStream = 0x1f83d9abfb41bd6b;

using Parts = std::vector<TokenPart>;

std::vector<ServedRequest> logged(const WorkloadConfig& w) {
  std::vector<ServedRequest> requests;
  for (const RequestRecord& r : w.log)
    requests.push_back({.arrival_s = r.arrival_s,
                        .prompt_tokens = r.prompt_tokens,
                        .output_tokens = r.output_tokens,
                        .prefilled = w.prefilled,
                        .priority = r.priority});
  if (!shares_tokens(w.log)) return requests;
  std::vector<CommonParts> common = common_parts(RequestParts(w.log), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].common = std::move(common[i]);
  return requests;
}

/// What drawn requests have in common: those of a class its prefix, those of a conversation all that was
/// said.
class DrawnParts {
 public:
  explicit DrawnParts(const WorkloadConfig& w) {
    for (std::size_t i = 0; i < w.mix.size(); ++i) {
      const std::uint32_t tokens = w.mix[i].shared_prefix;
      prefixes_.push_back(tokens > 0 ? alone({{i, tokens}}) : CommonParts());
    }
  }
  /// Request number `number`, which begins a conversation or goes on with one; `next` follows it.
  CommonParts of(std::size_t number, const DrawnLengths& request, const DrawnLengths* next) {
    if (request.said_before == 0) first_ = number;
    const std::uint32_t said = next != nullptr ? next->said_before : 0;
    const std::uint32_t shared = std::max(said, request.said_before);
    const CommonParts& prefix = prefixes_[request.of_class];
    if (shared == 0) return prefix;
    Parts parts = prefix.array ? *prefix.array : Parts();
    parts.push_back({kConversations + first_, shared});
    return alone(std::move(parts));
  }

 private:
  static constexpr std::uint64_t kConversations = std::uint64_t{1} << 32;  // ids; those of classes are below
  static CommonParts alone(Parts parts) {
    const std::size_t count = parts.size();
    return {std::make_shared<const Parts>(std::move(parts)), count};
  }
  std::vector<CommonParts> prefixes_;  // by class
  std::size_t first_ = 0;              // request of the conversation
};

double drawn_think_time(const Conversations& all, std::uint64_t seed, std::uint64_t number) {
  if (!all.exponential) return all.think_s;
  return -portable_log(1 - Random(seed, kTurnThinkStream, number).uniform()) * all.think_s;
}

/// Of drawn lengths.
std::vector<ServedRequest> mixed(const Scenario& s) {
  std::vector<ServedRequest> requests;
  const bool classes = has_classes(s.workload);
  const std::vector<DrawnLengths> drawn = drawn_lengths(s.workload, s.seed);
  DrawnParts parts(s.workload);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const DrawnLengths& one = drawn[i];
    requests.push_back({.prompt_tokens = one.prompt_tokens,
                        .output_tokens = one.output_tokens,
                        .prefilled = s.workload.prefilled,
                        .of_class = classes ? one.of_class : kNoClass,
                        .common = parts.of(i, one, i + 1 < drawn.size() ? &drawn[i + 1] : nullptr),
                        .priority = s.workload.mix[one.of_class].priority});
    if (one.said_before > 0)
      requests.back().think_s = drawn_think_time(*s.workload.mix[one.of_class].conversations, s.seed, i);
  }
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
  const auto first = std::ranges::count_if(requests, [](const ServedRequest& r) { return !r.goes_on(); });
  const double turns = static_cast<double>(requests.size()) / static_cast<double>(std::max<long>(first, 1));
  ArrivalsConfig config = s.workload.arrivals;
  if (config.ramp && config.ramp->over_s == 0)
    config.ramp->over_s = 2 * static_cast<double>(first) / (config.ramp->from + config.ramp->to);
  else if (config.ramp)
    config.ramp->over_s /= turns;
  ArrivalTimes arrivals(config, s.workload.arrivals_per_s, s.seed);
  for (ServedRequest& request : requests) {
    if (request.goes_on()) continue;
    const double now = arrivals.next() * turns;
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
