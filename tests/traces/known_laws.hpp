// Laws whose parameters the tests know, what is drawn from them, and fits.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "traces/law/law_fit.hpp"
#include "traces/law/law_generator.hpp"

namespace moelab::test {

/// Two equally popular experts in one layer, of which one is chosen.
inline RoutingLaw coin() {
  RoutingLaw law;
  law.model = "coin";
  law.experts = 2;
  law.top_k = 1;
  LayerLaw& layer = law.layers.emplace_back();
  layer.bias = {0, 0};
  return law;
}

/// Biases from `most` down to -most, on a line bent towards few popular experts.
inline RoutingLaw known(double most, double domain, double prompt, std::vector<double> spans,
                        double coupling) {
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

inline RoutingTrace drawn(const RoutingLaw& law, std::uint64_t seed, std::uint32_t requests,
                          std::uint32_t tokens) {
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

inline RoutingLaw fitted(const RoutingTrace& trace) {
  return fit_routing_law(trace, {.gates = nullptr, .source = "a test", .progress = {}});
}

}  // namespace moelab::test
