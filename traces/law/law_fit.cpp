#include "traces/law/law_fit.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "models/input_error.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/law/layer_measures.hpp"
#include "traces/law/logit_law.hpp"
#include "traces/model_title.hpp"
#include "traces/portable_math.hpp"
#include "traces/statistics/routing_statistics.hpp"
#include "traces/trace_slice.hpp"

namespace moelab {
namespace {

constexpr std::array<double, 3> kSpanTokens{1, 8, 64};
constexpr std::uint64_t kLeastTokens = 256;
constexpr std::uint32_t kMostSampleTokens = 8192, kLeastSampleTokens = 512;
constexpr std::uint32_t kSampleLogits = 16'000'000;  // at most so many, unless there are that many experts
constexpr std::uint64_t kLeastPairs = 64;            // a lag with fewer pairs says nothing
constexpr double kNeighbourWeight = 10;  // of lag 1 against each other lag: it is what caches live by
constexpr std::uint64_t kDrawnLogits =
    40'000'000;                              // rows that are drawn to compare with, times layers and experts
constexpr std::uint64_t kLeastDrawn = 4096;  // rows
constexpr int kRounds = 10;
constexpr double kFirstCoupling = 0.85;
constexpr std::uint64_t kSeed = 1;
constexpr double kMostGates = 1e6;  // what a law's file may say at most

/// Five significant digits.
std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

/// Calls `work` with 0 .. count - 1, spread over the cores; of several failures the first layer's is thrown.
void for_each_layer(std::uint32_t count, const std::function<void(std::uint32_t)>& work) {
  std::atomic<std::uint32_t> next = 0;
  std::exception_ptr failed;
  std::uint32_t failed_layer = count;
  std::mutex mutex;
  const auto loop = [&] {
    std::uint32_t l = next++;
    try {
      for (; l < count; l = next++) work(l);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (l < failed_layer) {
        failed = std::current_exception();
        failed_layer = l;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::min(count, std::thread::hardware_concurrency()); ++i)
      threads.emplace_back(loop);
    loop();
  }
  if (failed) std::rethrow_exception(failed);
}

/// domain, prompt and spans from the correlations of logits at distances in tokens.
void fit_correlations(LayerLaw& law, const LayerMeasures& m, std::span<const double> overlaps) {
  std::vector<double> columns, correlations, weights;
  for (std::size_t i = 0; i < kLags.size(); ++i) {
    if (m.pairs[i] < kLeastPairs) continue;
    columns.push_back(1);
    for (const double tokens : kSpanTokens) columns.push_back(portable_exp(-double(kLags[i]) / tokens));
    correlations.push_back(LogitSample::correlation(overlaps, m.overlap[i]));
    weights.push_back(kLags[i] == 1 ? kNeighbourWeight : 1);
  }
  law.spans.assign(kSpanTokens.size(), 0);
  if (correlations.empty()) return;
  std::vector<double> x = non_negative_least_squares(columns, correlations, weights);
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  if (sum > 1)
    for (double& weight : x) weight /= sum;
  law.domain = m.has_domains ? std::min(x[0], LogitSample::correlation(overlaps, m.domain_overlap)) : 0;
  law.prompt = x[0] - law.domain;
  std::copy(x.begin() + 1, x.end(), law.spans.begin());
}

LayerLaw fit_layer(const RoutingTrace& trace, const RoutingTrace* gates, std::uint32_t layer,
                   const LogitSample& sample) {
  const std::uint32_t k = trace.top_k();
  const LayerMeasures m = measure_layer(trace, layer);
  LayerLaw law;
  law.bias = sample.bias(m.shares, k);
  std::sort(law.bias.begin(), law.bias.end(), std::greater<>());
  fit_correlations(law, m, sample.overlaps(law.bias, k));
  if (gates == nullptr) return law;
  const GateMeasures g = measure_gates(*gates, layer);
  law.gate_sum = g.sum;
  if (!(g.sum > 0 && g.sum <= kMostGates))
    throw InputError("gates of " + model_title(*gates),
                     "layer " + std::to_string(layer) + ": the chosen experts' add up to " + digits(g.sum) +
                         " in the mean; a fit needs more than 0 and at most " + digits(kMostGates));
  const auto ranks = static_cast<std::uint32_t>(g.log_ratios.size() + 1);
  const std::vector<double> gaps = sample.gaps(law.bias, ranks);
  // A router may mask experts with logits near minus infinity: that is a gap like any other that is wide.
  for (std::size_t r = 0; r < gaps.size(); ++r)
    law.gate_gaps.push_back(std::min(g.log_ratios[r] / gaps[r], kMostGates));
  if (law.gate_gaps.empty()) law.gate_gaps.push_back(1);  // k = 1 and nothing known of the others
  return law;
}

/// Every n-th of the requests that are not empty, so that about as many rows are left as are worth drawing.
RoutingTrace thinned(const RoutingTrace& trace) {
  const std::uint64_t logits = std::uint64_t{trace.layers()} * trace.experts();
  const std::uint64_t rows = std::max(kLeastDrawn, kDrawnLogits / logits);
  const std::uint64_t step = (trace.tokens() + rows - 1) / rows;
  std::vector<std::uint32_t> requests;
  std::uint64_t number = 0;
  for (std::uint32_t r = 0; r < trace.requests().size(); ++r)
    if (trace.requests()[r].begin < trace.requests()[r].end && number++ % step == 0) requests.push_back(r);
  return slice(trace, requests);
}

/// Popularity as it comes out of few requests, and the coupling: compared with drawn requests of the same
/// kind, in rounds on the same random numbers.
void calibrate(RoutingLaw& law, const RoutingTrace& trace, const std::function<void()>& step) {
  StatisticsOptions quick;
  quick.curves = false;
  const RoutingStatistics wanted = routing_statistics(trace, quick);
  const RoutingLaw start = law;
  RoutingLaw drawn_law = law;  // without gates, which cost as much as the choice of the experts
  for (LayerLaw& layer : drawn_law.layers) layer.gate_gaps.clear();
  std::vector<double> scale(law.layers.size(), 1);
  for (int round = 0; round < kRounds; ++round) {
    const double gain =
        0.8 / (1 + 0.5 * round);  // falls as 1 / n (Robbins, Monro, 1951): the rounds' chance averages out
    for (std::size_t l = 0; l < law.layers.size(); ++l) {
      drawn_law.layers[l].bias = law.layers[l].bias;
      drawn_law.layers[l].coupling = law.layers[l].coupling;
    }
    const RoutingStatistics drawn =
        routing_statistics(drawn_like(drawn_law, trace, kSeed + static_cast<std::uint64_t>(round)), quick);
    for (std::size_t l = 0; l < law.layers.size(); ++l) {
      LayerLaw& layer = law.layers[l];
      const LayerStatistics &want = wanted.layers[l], &got = drawn.layers[l];
      if (std::isfinite(want.top_quarter))
        scale[l] = std::clamp(scale[l] * (1 + 2 * gain * (want.top_quarter - got.top_quarter)), 0.1, 4.0);
      for (std::size_t r = 0; r < layer.bias.size(); ++r) layer.bias[r] = scale[l] * start.layers[l].bias[r];
      if (std::isfinite(want.transition_recall) && std::isfinite(got.transition_recall))
        layer.coupling =
            std::clamp(layer.coupling + gain * (want.transition_recall - got.transition_recall), 0.0, 1.0);
    }
    step();
  }
}

/// To the digits that mean something: what is written is what was fitted, and a person can read it.
void round_off(RoutingLaw& law) {
  const auto rounded = [](double& value) { value = std::round(value * 1e4) / 1e4; };
  const auto cut = [](double& value) { value = std::floor(value * 1e4) / 1e4; };  // adds up to no more
  rounded(law.prompt_tokens);
  rounded(law.decode_tokens);
  for (double& share : law.domain_shares) share = std::round(share * 1e9) / 1e9;  // there may be thousands
  for (LayerLaw& layer : law.layers) {
    layer.gate_sum = std::strtod(digits(layer.gate_sum).c_str(), nullptr);
    rounded(layer.coupling);
    cut(layer.domain);
    cut(layer.prompt);
    std::for_each(layer.spans.begin(), layer.spans.end(), cut);
    for (std::vector<double>* values : {&layer.gate_gaps, &layer.bias})
      std::for_each(values->begin(), values->end(), rounded);
  }
}

void check(const RoutingTrace& trace, const RoutingTrace* gates) {
  const std::string what = "trace of " + model_title(trace);
  if (trace.tokens() < kLeastTokens)
    throw InputError(what, "has " + std::to_string(trace.tokens()) + " tokens; a fit needs at least " +
                               std::to_string(kLeastTokens));
  if (gates == nullptr) return;
  if (!gates->has_scores())
    throw InputError("gates of " + model_title(*gates), "the trace has no gate scores");
  if (gates->layers() != trace.layers() || gates->experts() != trace.experts() ||
      gates->top_k() != trace.top_k())
    throw InputError("gates of " + model_title(*gates), "have other layers, experts or top_k than the trace");
}

/// For which tokens a layer runs.
struct Runs {
  bool encoder = false, others = false;
};

Runs runs_of(const RoutingTrace& trace, std::uint32_t layer) {
  Runs runs;
  for (std::uint64_t t = 0; t < trace.tokens() && !(runs.encoder && runs.others); ++t)
    if (trace.experts_of(t, layer)[0] != kNoExpert)
      (trace.phase_of(t) == Phase::encoder ? runs.encoder : runs.others) = true;
  return runs;
}

/// The number of layers that are an encoder's, the first ones; 0 where no layer is left out for any phase.
std::uint32_t encoder_layers(const RoutingTrace& trace) {
  std::vector<Runs> runs;
  for (std::uint32_t l = 0; l < trace.layers(); ++l) runs.push_back(runs_of(trace, l));
  const auto fail = [&](std::size_t l, const std::string& what) {
    throw InputError("trace of " + model_title(trace), "layer " + std::to_string(l) + " " + what);
  };
  const auto of_encoder = [](const Runs& r) { return r.encoder && !r.others; };
  const auto count = std::count_if(runs.begin(), runs.end(), of_encoder);
  const bool apart = count > 0 && count < std::ssize(runs);
  for (std::size_t l = 0; l < runs.size(); ++l) {
    if (!runs[l].encoder && !runs[l].others) fail(l, "runs for no token");
    if (apart && runs[l].encoder && runs[l].others)
      fail(l, "runs for encoder tokens and others, but another layer for encoder tokens alone");
    if (apart && of_encoder(runs[l]) && std::cmp_greater_equal(l, count))
      fail(l, "runs for encoder tokens alone, but the encoder's layers must come first");
  }
  return apart ? static_cast<std::uint32_t>(count) : 0;
}

void describe(RoutingLaw& law, const RoutingTrace& trace, const std::string& source) {
  law.model = trace.model();
  law.provenance = "fitted to " + source;
  law.experts = trace.experts();
  law.top_k = trace.top_k();
  law.span_tokens.assign(kSpanTokens.begin(), kSpanTokens.end());
  law.domains = trace.description().domains;
  law.domain_shares.assign(law.domains.size(), 0);
  double requests = 0;
  for (std::size_t r = 0; r < trace.requests().size(); ++r) {
    const TraceRequest& request = trace.requests()[r];
    if (request.begin == request.end) continue;
    ++requests;
    law.prompt_tokens += static_cast<double>(request.decode_begin - request.begin);
    law.decode_tokens += static_cast<double>(request.end - request.decode_begin);
    if (!law.domains.empty()) law.domain_shares[trace.domain_of(r)] += 1;
  }
  law.prompt_tokens /= requests;
  law.decode_tokens /= requests;
  for (double& share : law.domain_shares) share /= requests;
}

}  // namespace

RoutingLaw fit_routing_law(const RoutingTrace& trace, const FitOptions& options) {
  const RoutingTrace* gates = options.gates != nullptr ? options.gates
                              : trace.has_scores()     ? &trace
                                                       : nullptr;
  check(trace, gates);
  const std::uint32_t encoder = encoder_layers(trace);
  RoutingLaw law;
  describe(law, trace, options.source);
  law.layers.resize(trace.layers());
  std::mutex mutex;
  std::uint64_t done = 0;
  const auto step = [&] {
    const std::lock_guard lock(mutex);
    ++done;
    if (options.progress) options.progress(done, law.layers.size() + kRounds);
  };
  const LogitSample sample(
      law.experts, std::clamp(kSampleLogits / law.experts, kLeastSampleTokens, kMostSampleTokens), kSeed);
  for_each_layer(trace.layers(), [&](std::uint32_t l) {
    law.layers[l] = fit_layer(trace, gates, l, sample);
    law.layers[l].encoder = l < encoder;
    step();
  });
  for (LayerLaw& layer : law.layers) layer.coupling = kFirstCoupling;
  calibrate(law, thinned(trace), step);
  round_off(law);
  return law;
}

RoutingTrace drawn_like(const RoutingLaw& law, const RoutingTrace& like, std::uint64_t seed) {
  RoutingTraceBuilder builder(LawGenerator(law, seed).description());
  builder.reserve(like.tokens());
  std::size_t r = 0;
  const auto next = [&]() -> std::optional<DrawnRequest> {
    if (r == like.requests().size()) return {};
    const TraceRequest& recorded = like.requests()[r];
    DrawnRequest request{.number = r, .domain = like.domain_of(r), .rows = {}};
    for (std::uint64_t t = recorded.begin; t < recorded.end; ++t)
      ++request.rows[static_cast<std::size_t>(like.phase_of(t))];
    ++r;
    return request;
  };
  draw_requests(
      law, seed, false, next, [&](const DrawnRequest& request) { builder.begin_request(request.domain); },
      [&](const TraceRow& row) { builder.add_token(row); });
  return builder.finish();
}

}  // namespace moelab
