#include "sim/scenario_trace.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "sim/cluster/cluster_requests.hpp"
#include "sim/scenario/trace_fit.hpp"
#include "sim/serving/drawn_lengths.hpp"
#include "sim/serving/served_request.hpp"
#include "sim/trace_scores.hpp"
#include "traces/default_trace.hpp"
#include "traces/generator.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/law/model_law.hpp"
#include "traces/trace_slice.hpp"

namespace moelab {
namespace {

/// Planning looks at another trace of the same statistics, as a deployment would look at yesterday's: long
/// enough that the popularity ranks have settled, and as long whatever the workload.
constexpr std::uint64_t kHistorySeedOffset = 0x9e3779b97f4a7c15;
constexpr std::uint32_t kHistoryRequests = 64;
constexpr std::uint32_t kHistoryTokens = 64;

/// Where requests come and go, their rows come from a pool of so many tokens, over and over: what is routed
/// decides how many experts a step touches, and which. 4,096 tokens: the largest batch may all run different
/// ones.
constexpr std::uint64_t kPoolRequests = 64;
constexpr std::uint32_t kPoolTokens = 64;

/// Rows that are drawn for requests of a log, or of drawn lengths, where each has its own; those beyond share
/// them.
constexpr std::uint64_t kMostOwnRows = 1 << 18;

/// Requests of the pool: no more rows than will run.
std::uint32_t pool_requests(const Scenario& s) {
  const WorkloadConfig& w = s.workload;
  std::uint64_t rows = w.requests * (std::uint64_t{w.prompt_tokens} + w.output_tokens);
  for (const RequestRecord& r : w.log) rows += std::uint64_t{r.prompt_tokens} + r.output_tokens;
  for (const DrawnLengths& r : drawn_lengths(w, s.seed))
    rows += std::uint64_t{r.prompt_tokens} + r.output_tokens;
  return static_cast<std::uint32_t>(std::min(kPoolRequests, rows / kPoolTokens + 1));
}

/// Of requests whose lengths differ, as many as have rows of their own: all, where the workload does not say
/// when they come, since some systems then serve them in turn.
std::vector<GeneratorParameters::Lengths> own_lengths(const Scenario& s) {
  const WorkloadConfig& w = s.workload;
  const bool all = !says_arrivals(w);
  std::vector<GeneratorParameters::Lengths> lengths;
  std::uint64_t rows = 0;
  const auto add = [&](std::uint32_t prompt, std::uint32_t output) {
    rows += std::uint64_t{prompt} + output;
    if (rows > kMostOwnRows && !lengths.empty() && !all) return false;
    lengths.push_back({prompt, output + (w.prefilled ? 1U : 0U)});
    return true;
  };
  for (const RequestRecord& r : w.log)
    if (!add(r.prompt_tokens, r.output_tokens)) break;
  for (const DrawnLengths& r : drawn_lengths(w, s.seed))
    if (!add(r.prompt_tokens, r.output_tokens)) break;
  return lengths;
}

bool needs_all_scores(const SystemConfig& system) {
  return find_routing_policy(system.routing.name)->needs_all_scores ||
         find_cache_policy(system.cache.name)->needs_all_scores ||
         find_prefetch_policy(system.prefetch.name)->needs_all_scores;
}

/// Which requests of a scenario's model to draw.
struct Draw {
  std::uint64_t seed = 1;  // another one is another model of the same statistics
  std::uint32_t first = 0, requests = 1;
  std::uint32_t prompt_tokens = 1, output_tokens = 1;
  bool all_scores = false;
  std::vector<GeneratorParameters::Lengths> lengths = {};  // of each; empty: all are alike
};

RoutingTrace draw_from_generator(const Scenario& s, const Draw& draw) {
  const FeedForward& ff = s.model.moe();
  GeneratorParameters p;
  p.model = s.model.name;
  p.experts = static_cast<std::uint32_t>(ff.experts);
  p.top_k = static_cast<std::uint32_t>(ff.top_k);
  for (const Layer& layer : s.model.layers) {
    if (layer.feed_forward.kind != FeedForward::Kind::moe) continue;
    ++p.layers;
    if (layer.stack == Stack::encoder) ++p.encoder_layers;
  }
  p.first_request = draw.first;
  p.requests = draw.requests;
  p.prompt_tokens = draw.prompt_tokens;
  p.output_tokens = draw.output_tokens;
  p.skew = s.workload.skew;
  p.reuse = s.workload.reuse;
  p.drift = s.workload.drift;
  p.gate_decay = s.workload.gate_decay;
  p.seed = draw.seed;
  p.all_scores = draw.all_scores;
  p.lengths = draw.lengths;
  return generate_routing_trace(p);
}

RoutingTrace draw_from_law(const Scenario& s, const Draw& draw) {
  const RoutingLaw law = law_for_model(s.workload.law, s.model);
  if (draw.all_scores && !law.has_gates())
    throw InputError(s.workload.law_file,
                     "the law of '" + s.workload.law.model +
                         "' has no gates, so there are no scores of all experts, which a system needs");
  const LawGenerator generator(law, draw.seed, draw.all_scores);
  RoutingTraceBuilder builder(generator.description());
  const bool encoder = law.has_encoder();
  const auto lengths_of = [&](std::uint64_t number) {
    using Lengths = GeneratorParameters::Lengths;
    return draw.lengths.empty() ? Lengths{draw.prompt_tokens, draw.output_tokens}
                                : draw.lengths[number - draw.first];
  };
  // The first token comes with the prompt, or with an encoder-decoder's first decode row.
  const auto decode_rows = [&](std::uint64_t number) -> std::uint64_t {
    return lengths_of(number).output_tokens - (encoder ? 0U : 1U);
  };
  const std::uint64_t end = draw.first + (draw.lengths.empty() ? draw.requests : draw.lengths.size());
  std::uint64_t rows = 0;
  for (std::uint64_t i = draw.first; i < end; ++i) rows += lengths_of(i).prompt_tokens + decode_rows(i);
  builder.reserve(rows);
  std::uint64_t number = draw.first;
  draw_requests(
      law, draw.seed, draw.all_scores,
      [&]() -> std::optional<DrawnRequest> {
        if (number == end) return {};
        const std::uint64_t prompt = lengths_of(number).prompt_tokens, decode = decode_rows(number);
        const DrawnRequest request{.number = number,
                                   .domain = generator.domain_of(number),
                                   .rows = {encoder ? prompt : 0, encoder ? 0 : prompt, decode}};
        ++number;
        return request;
      },
      [&](const DrawnRequest& request) { builder.begin_request(request.domain); },
      [&](const TraceRow& row) { builder.add_token(row); });
  return builder.finish();
}

/// A dense model routes nothing, but its requests run rows of a trace as others do: of one layer whose one
/// expert all rows choose, which nothing looks at.
RoutingTrace rows_of_dense(const Architecture& model, const Draw& draw) {
  GeneratorParameters p;
  p.model = model.name;
  p.layers = p.experts = p.top_k = 1;
  p.requests = draw.requests;
  p.prompt_tokens = draw.prompt_tokens;
  p.output_tokens = draw.output_tokens;
  p.lengths = draw.lengths;
  return generate_routing_trace(p);
}

RoutingTrace draw_requests_of(const Scenario& s, const Draw& draw) {
  if (!s.model.is_moe()) return rows_of_dense(s.model, draw);
  return s.workload.has_law ? draw_from_law(s, draw) : draw_from_generator(s, draw);
}

RoutingTrace first_requests(const RoutingTrace& trace, const WorkloadConfig& w) {
  if (w.trace_requests > trace.requests().size())
    throw InputError(w.trace_file, "workload.requests asks for " + std::to_string(w.trace_requests) +
                                       " of its requests, and it has " +
                                       std::to_string(trace.requests().size()));
  std::vector<std::uint32_t> numbers(w.trace_requests);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return slice(trace, numbers);
}

/// Which file of the user's a fitted law is from: such a law does not say how near it comes.
std::string fitted_file_text(const WorkloadConfig& w) {
  if (w.law.basis != LawBasis::fitted || w.law_file.empty() || w.law_file.starts_with("configs/laws/"))
    return "";
  return " in " + std::filesystem::path(w.law_file).filename().string() +
         " (fitted; how near it comes is not known, see moelab trace fit --holdout)";
}

}  // namespace

RoutingTrace scenario_trace(const Scenario& scenario) {
  if (scenario.cluster) return task_rows(scenario);
  const WorkloadConfig& w = scenario.workload;
  if (w.trace_file.empty()) {
    if (serves_from_pool(scenario))
      return draw_requests_of(scenario, {.seed = scenario.seed,
                                         .requests = pool_requests(scenario),
                                         .output_tokens = kPoolTokens,
                                         .all_scores = draws_all_scores(scenario)});
    // Where prompts are prefilled the first token has been, and runs a row.
    return draw_requests_of(scenario, {.seed = scenario.seed,
                                       .requests = w.requests,
                                       .prompt_tokens = w.prompt_tokens,
                                       .output_tokens = w.output_tokens + (w.prefilled ? 1 : 0),
                                       .all_scores = draws_all_scores(scenario),
                                       .lengths = own_lengths(scenario)});
  }
  RoutingTrace trace = open_routing_trace(w.trace_file);
  check_trace_fits(scenario.model, w.trace_file, trace);
  return w.trace_requests == 0 ? trace : first_requests(trace, w);
}

std::string routing_title(const Scenario& s, const RoutingTrace& trace) {
  const WorkloadConfig& w = s.workload;
  if (s.cluster) return "each task's ('provenance' of moelab run --format json)";
  if (!s.model.is_moe()) return "none (the model has no experts)";
  if (!w.trace_file.empty())
    return (trace.synthetic() ? "synthetic trace " : "recorded trace ") +
           std::filesystem::path(w.trace_file).filename().string();
  if (w.has_law) return law_title(w.law) + fitted_file_text(w);
  char text[96];
  std::snprintf(text, sizeof text, "generator (skew %g, reuse %g, drift %g, gate_decay %g)", w.skew, w.reuse,
                w.drift, w.gate_decay);
  return text;
}

bool draws_all_scores(const Scenario& scenario) {
  return std::any_of(scenario.systems.begin(), scenario.systems.end(), needs_all_scores);
}

RankInclusion planning_statistics(const Scenario& s, const RoutingTrace& trace) {
  if (!s.workload.trace_file.empty())
    return rank_inclusion(trace, s.workload.batch, s.model.has_encoder(), drafts_of(s));
  const RoutingTrace history =
      draw_requests_of(s, {.seed = s.seed + kHistorySeedOffset,
                           .requests = std::max(kHistoryRequests, 4 * s.workload.batch),
                           .output_tokens = kHistoryTokens});
  return rank_inclusion(history, s.workload.batch, s.model.has_encoder(), drafts_of(s));
}

std::vector<double> expert_profile(const Scenario& s, const RoutingTrace& trace) {
  std::optional<RoutingTrace> other;
  if (s.workload.trace_file.empty())
    other = draw_requests_of(
        s,
        {.seed = s.seed,
         .first = serves_from_pool(s) ? std::max(s.workload.requests, pool_requests(s)) : s.workload.requests,
         .requests = kHistoryRequests,
         .output_tokens = kHistoryTokens});
  const RoutingTrace& profiled = other ? *other : trace;
  std::vector<double> uses(std::size_t{trace.layers()} * trace.experts(), 0);
  for (std::uint64_t row = 0; row < profiled.tokens(); ++row)
    for (std::uint32_t layer = 0; layer < trace.layers(); ++layer)
      for (const std::uint16_t expert : profiled.experts_of(row, layer))
        if (expert != kNoExpert) ++uses[std::size_t{layer} * trace.experts() + expert];
  return uses;
}

}  // namespace moelab
