// Fits: a law that is known is found again, and what is drawn from the law found is like what is drawn from
// the known one; recordings of odd kinds give laws that can be written, read and drawn from, or errors.
#include "traces/law/law_fit.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <span>
#include <string>

#include "tests/traces/random_laws.hpp"
#include "tests/traces/random_traces.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/law/law_generator.hpp"
#include "traces/statistics/routing_statistics.hpp"

namespace moelab {
namespace {

using namespace test;
using Catch::Matchers::Contains;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;  // and slow
#else
constexpr bool kSanitized = false;
#endif

RoutingTrace drawn(const RoutingLaw& law, std::uint64_t seed, std::uint32_t requests, std::uint32_t tokens) {
  LawGenerator generator(law, seed);
  RoutingTraceBuilder builder(generator.description());
  for (std::uint32_t r = 0; r < requests; ++r) {
    const std::uint16_t domain = generator.domain_of(r);
    generator.begin_request(r, domain);
    builder.begin_request(domain);
    for (std::uint32_t t = 0; t < tokens; ++t)
      builder.add_token(generator.next(t < tokens / 4 ? Phase::prefill : Phase::decode));
  }
  return builder.finish();
}

RoutingLaw fitted(const RoutingTrace& trace) {
  return fit_routing_law(trace, {.gates = nullptr, .source = "a test", .progress = {}});
}

/// Biases from `most` down to -most, on a line bent towards few popular experts.
RoutingLaw known(double most, double domain, double prompt, std::vector<double> spans, double coupling) {
  RoutingLaw law;
  law.model = "known";
  law.provenance = "made up";
  law.experts = 16;
  law.top_k = 2;
  law.span_tokens = {1, 8, 64};  // those of the fit
  law.domains = {"a", "b", "c"};
  law.domain_shares = {0.4, 0.3, 0.3};
  LayerLaw layer;
  for (int e = 0; e < 16; ++e) layer.bias.push_back(most * (2 * std::pow((15 - e) / 15.0, 1.5) - 0.8));
  layer.domain = domain;
  layer.prompt = prompt;
  layer.spans = std::move(spans);
  layer.coupling = coupling;
  layer.gate_gaps = {0.8};
  layer.gate_sum = 1.5;
  law.layers.assign(4, layer);
  return law;
}

/// Overlap of the experts of tokens `lag` apart, over all layers.
double overlap_at(const RoutingTrace& trace, std::uint64_t lag) {
  double common = 0, all = 0;
  for (const TraceRequest& request : trace.requests())
    for (std::uint64_t t = request.begin; t + lag < request.end; ++t)
      for (std::uint32_t l = 0; l < trace.layers(); ++l) {
        const auto a = trace.experts_of(t, l), b = trace.experts_of(t + lag, l);
        for (const std::uint16_t e : a) common += std::count(b.begin(), b.end(), e) > 0;
        all += trace.top_k();
      }
  return common / all;
}

using Figures = std::map<std::string, double>;  // means over the layers

const Figures kBounds{{"busiest quarter", 0.03},
                      {"reuse", 0.03},
                      {"transition recall", 0.05},
                      {"LRU", 0.03},
                      {"Belady", 0.03},
                      {"gate 1", 0.05},
                      {"gate 2", 0.05},
                      {"overlap at 2", 0.03},
                      {"overlap at 5", 0.03},
                      {"overlap at 16", 0.03},
                      {"overlap at 50", 0.03},
                      {"overlap at 150", 0.03}};

Figures figures_of(const RoutingTrace& trace) {
  const RoutingStatistics statistics = routing_statistics(trace);
  const auto mean = [&](auto figure) {
    double sum = 0, layers = 0;
    for (const LayerStatistics& layer : statistics.layers)
      if (const double value = figure(layer); std::isfinite(value)) sum += value, ++layers;
    return sum / layers;
  };
  Figures figures{{"busiest quarter", mean([](const auto& s) { return s.top_quarter; })},
                  {"reuse", mean([](const auto& s) { return s.reuse; })},
                  {"transition recall", mean([](const auto& s) { return s.transition_recall; })},
                  {"LRU", mean([](const auto& s) { return s.lru[3]; })},
                  {"Belady", mean([](const auto& s) { return s.belady[3]; })},
                  {"gate 1", mean([](const auto& s) { return s.gates[0]; })},
                  {"gate 2", mean([](const auto& s) { return s.gates[1]; })}};
  for (const std::uint64_t lag : {2u, 5u, 16u, 50u, 150u})
    figures["overlap at " + std::to_string(lag)] = overlap_at(trace, lag);
  return figures;
}

std::pair<double, double> mean_and_spread(const std::vector<Figures>& draws, const std::string& name) {
  const auto n = static_cast<double>(draws.size());
  double mean = 0, squares = 0;
  for (const Figures& figures : draws) mean += figures.at(name) / n;
  for (const Figures& figures : draws) squares += std::pow(figures.at(name) - mean, 2) / (n - 1);
  return {mean, std::sqrt(squares)};
}

/// Written, read and drawn from without anything wrong.
void check_usable(const RoutingLaw& law, const RoutingTrace& trace) {
  const ScratchFolder folder;
  write_bytes(folder / "law.yaml", to_yaml(law));
  INFO(to_yaml(law));
  REQUIRE(same_law(read_routing_law(folder / "law.yaml"), law));
  const RoutingTrace like = drawn_like(law, trace, 7);
  REQUIRE(like.tokens() == trace.tokens());
  REQUIRE(like.requests().size() == trace.requests().size());
  CHECK(like.synthetic());
  for (std::size_t r = 0; r < trace.requests().size(); ++r) {
    const TraceRequest &a = trace.requests()[r], &b = like.requests()[r];
    REQUIRE((a.begin == b.begin && a.decode_begin == b.decode_begin && a.end == b.end));
    REQUIRE(like.domain_of(r) == trace.domain_of(r));
  }
  for (std::uint64_t t = 0; t < trace.tokens(); ++t)
    for (std::uint32_t l = 0; l < trace.layers(); ++l)
      REQUIRE((trace.experts_of(t, l)[0] == kNoExpert) == (like.experts_of(t, l)[0] == kNoExpert));
}

PlainTrace plain(std::uint64_t seed, const PlainSizes& sizes) {
  Random random(seed, 12, 0);
  PlainTrace trace = random_plain_trace(random, sizes);
  while (trace.built().tokens() < 256) trace = random_plain_trace(random, sizes);
  return trace;
}

void check_fit(const PlainTrace& trace) {
  const RoutingTrace built = trace.built();
  const RoutingLaw law = fitted(built);
  CHECK(law.has_gates() == trace.about.gate_scores);
  for (std::uint32_t l = 0; l < trace.about.layers; ++l)
    CHECK(law.layers[l].encoder == (l < trace.encoder_layers));
  check_usable(law, built);
}

}  // namespace

TEST_CASE("a known law is found again from what is drawn from it") {
  const std::vector<RoutingLaw> laws{
      known(0.8, 0.1, 0.1, {0.2, 0.15, 0.15}, 0.8),
      known(0.5, 0, 0.3, {0, 0.3, 0}, 0.5),
      known(1.2, 0.25, 0.1, {0.3, 0, 0}, 0.9),
      known(0.3, 0, 0, {0.6, 0, 0.2}, 0.95),
  };
  for (const RoutingLaw& law : std::span(laws).first(kSanitized ? 1 : laws.size())) {
    const RoutingTrace recorded = drawn(law, 1, 60, 400);
    const RoutingLaw found = fitted(recorded);
    INFO(to_yaml(law) << to_yaml(found));
    // The parameters: prompts and domains are told apart by 60 and 3 samples.
    CHECK(found.domains == law.domains);
    CHECK(found.prompt_tokens == 100);
    CHECK(found.decode_tokens == 300);
    for (std::size_t l = 0; l < 4; ++l) {
      const LayerLaw &a = law.layers[l], &b = found.layers[l];
      CHECK(b.domain + b.prompt == Approx(a.domain + a.prompt).margin(0.15));
      CHECK(b.spans[0] + b.spans[1] + b.spans[2] ==
            Approx(a.spans[0] + a.spans[1] + a.spans[2]).margin(0.15));
      if (l > 0) CHECK(b.coupling == Approx(a.coupling).margin(0.25));
      CHECK(b.gate_gaps[0] == Approx(0.8).epsilon(0.1));
      CHECK(b.gate_sum == Approx(1.5).epsilon(1e-3));
    }
    // Fresh draws of both, with other domains and prompts each time. Bounds: those asked of real recordings,
    // and three standard errors as the known law's own draws show them.
    constexpr int kDraws = 3;
    std::vector<Figures> due, got;
    for (std::uint64_t seed = 2; seed < 2 + kDraws; ++seed) {
      due.push_back(figures_of(drawn(law, seed, 60, 400)));
      got.push_back(figures_of(drawn(found, 100 + seed, 60, 400)));
    }
    for (const auto& [name, bound] : kBounds) {
      const auto [mean, spread] = mean_and_spread(due, name);
      INFO(name << ", spread " << spread);
      CHECK(mean_and_spread(got, name).first ==
            Approx(mean).margin(bound + 3 * spread * std::sqrt(2.0 / kDraws)));
    }
  }
}

TEST_CASE("a fit is the same each time") {
  const RoutingTrace trace = drawn(known(0.8, 0.1, 0.1, {0.2, 0.15, 0.15}, 0.8), 5, 10, 100);
  CHECK(to_yaml(fitted(trace)) == to_yaml(fitted(trace)));
}

TEST_CASE("recordings of odd sizes are fitted") {
  check_fit(plain(1, {3, 8, 8, 20, 40, 0}));   // all experts chosen
  check_fit(plain(2, {1, 8, 2, 20, 40, 0}));   // one layer
  check_fit(plain(3, {3, 8, 2, 1, 600, 0}));   // one request
  check_fit(plain(4, {3, 8, 1, 1200, 1, 0}));  // requests of one token, and of none
  check_fit(plain(5, {2, 1, 1, 20, 60, 0}));   // one expert
  check_fit(plain(6, {4, 8, 2, 30, 40, 2}));   // encoder and decoder
  check_fit(plain(7, {2, 70, 8, 20, 40, 0}));  // most experts hardly used
  for (std::uint64_t seed = 20; seed < 26; ++seed) check_fit(plain(seed, {2, 6, 2, 20, 60, 0}));
}

TEST_CASE("a fit to tokens without noise gives weights that add up to 1 at most") {
  // No noise is left: the weights that are measured add up to more than 1 half the time, are scaled to add up
  // to 1, and must not exceed it when they are rounded.
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const RoutingTrace trace = drawn(known(0.5, 0.05, 0.25, {0.3, 0.2, 0.2}, 0.5), seed, 10, 60);
    check_usable(fitted(trace), trace);
  }
}

TEST_CASE("a fit to many domains gives shares that add up to 1") {
  PlainTrace trace = plain(40, {1, 6, 1, 57 * 5, 20, 0});
  trace.about.domains.clear();
  for (int d = 0; d < 57; ++d) trace.about.domains.push_back("subject " + std::to_string(d));
  std::uint16_t next = 0;
  std::erase_if(trace.requests, [](const PlainRequest& request) { return request.rows.empty(); });
  trace.requests.resize(57 * 3);
  for (PlainRequest& request : trace.requests) request.domain = static_cast<std::uint16_t>(next++ % 57);
  check_fit(trace);
}

TEST_CASE("encoder layers are told from decoder layers, whatever the last request holds") {
  PlainTrace trace = plain(41, {4, 8, 2, 30, 40, 2});
  Random random(41);
  trace.requests.emplace_back();
  for (int t = 0; t < 5; ++t) trace.requests.back().rows.push_back(random_row(random, trace, Phase::encoder));
  check_fit(trace);
  // An encoder alone, and a decoder whose prompts are called encoder rows: no layer is the encoder's own.
  for (const bool alone : {true, false}) {
    PlainTrace other = plain(42, {3, 8, 2, 30, 40, 0});
    for (PlainRequest& request : other.requests)
      for (PlainRow& row : request.rows)
        if (alone || row.phase != Phase::decode) row.phase = Phase::encoder;
    check_fit(other);
  }
}

TEST_CASE("a long recording is thinned to requests that hold something") {
  // 800 logits a row: a fit draws some 50000 rows and takes every second request. Those with an even number
  // are empty; of the others every second one is the long one.
  PlainTrace trace = plain(43, {10, 80, 1, 2, 300, 0});
  trace.about.domains.clear();
  Random random(43);
  trace.requests.assign(6, {});
  for (const auto& [number, rows] : {std::pair{1u, 300u}, std::pair{3u, 60000u}, std::pair{5u, 300u}})
    for (std::uint32_t t = 0; t < rows; ++t)
      trace.requests[number].rows.push_back(random_row(random, trace, Phase::decode));
  const RoutingLaw law = fitted(trace.built());
  CHECK(law.layers.size() == 10);
  CHECK(law.decode_tokens == 20200);
}

TEST_CASE("what cannot be fitted is an error that says why") {
  const auto error = [](const PlainTrace& trace) { return error_of([&] { fitted(trace.built()); }); };
  PlainTrace trace = plain(50, {2, 8, 2, 1, 300, 0});
  trace.about.gate_scores = true;
  for (PlainRow& row : trace.requests[0].rows) row.gates.assign(2, {0.7f, 0.3f});
  trace.requests[0].rows.resize(255);
  CHECK_THAT(error(trace), Contains("255 tokens") && Contains("256"));
  trace.requests[0].rows.push_back(trace.requests[0].rows.back());
  CHECK(error(trace).empty());
  const PlainTrace good = trace;

  trace.requests[0].rows[9].gates[1][0] = -0.5f;
  CHECK_THAT(error(trace), Contains("token 9, layer 1") && Contains("-0.5"));
  trace = good;
  for (PlainRow& row : trace.requests[0].rows) row.gates[1] = {0, 0};
  CHECK_THAT(error(trace), Contains("layer 1") && Contains("add up to 0"));
  trace = good;
  for (PlainRow& row : trace.requests[0].rows) row.ids[1] = {kNoExpert, kNoExpert};
  CHECK_THAT(error(trace), Contains("layer 1 runs for no token"));
  trace = good;
  for (std::size_t t = 0; t < 100;
       ++t) {  // layer 1 for encoder rows alone, layer 0 for all, or not for these
    trace.requests[0].rows[t].phase = Phase::encoder;
    for (std::size_t u = 100; u < 256; ++u) trace.requests[0].rows[u].phase = Phase::decode;
  }
  for (std::size_t t = 100; t < 256; ++t) trace.requests[0].rows[t].ids[1] = {kNoExpert, kNoExpert};
  CHECK_THAT(error(trace), Contains("layer 0") && Contains("encoder"));
  for (std::size_t t = 0; t < 100; ++t) trace.requests[0].rows[t].ids[0] = {kNoExpert, kNoExpert};
  CHECK_THAT(error(trace), Contains("layer 1") && Contains("first"));

  const RoutingTrace whole = good.built();
  PlainTrace bare = good;
  bare.about.gate_scores = false;
  for (PlainRow& row : bare.requests[0].rows) row.gates.assign(2, {});
  const RoutingTrace scoreless = bare.built();
  FitOptions options{.gates = &scoreless, .source = "", .progress = {}};
  CHECK_THAT(error_of([&] { fit_routing_law(whole, options); }), Contains("no gate scores"));
  const RoutingTrace other = plain(51, {3, 8, 2, 1, 300, 0}).built();
  const RoutingTrace large = drawn(known(0.5, 0, 0, {0, 0, 0}, 0.5), 1, 1, 300);
  options.gates = &large;
  CHECK_THAT(error_of([&] { fit_routing_law(other, options); }), Contains("other layers, experts or top_k"));
  // Gates of another recording: those, not the trace's own.
  options.gates = &whole;
  const RoutingLaw law = fit_routing_law(scoreless, options);
  CHECK(law.layers[0].gate_sum == Approx(1));
}

}  // namespace moelab
