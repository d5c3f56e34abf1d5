// Random laws of routing, valid in every way that a file can be.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "traces/law/routing_law.hpp"
#include "traces/random.hpp"

namespace moelab::test {

inline std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return low + static_cast<std::uint32_t>(random.below(high - low + 1));
}

/// Values around 0 over a range of `most`, falling.
inline std::vector<double> falling(Random& random, std::size_t count, double most) {
  std::vector<double> values(count);
  for (double& v : values) v = most * (random.uniform() - 0.5);
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

inline LayerLaw random_layer(Random& random, std::uint32_t experts, std::size_t spans, std::size_t gaps) {
  LayerLaw layer;
  layer.bias = falling(random, experts, 4);
  double left = random.below(4) == 0 ? 1 : random.uniform();  // of the weights; a rest of 0 now and then
  const auto part = [&] {
    const double taken = left * random.uniform();
    left -= taken;
    return taken;
  };
  layer.domain = part();
  layer.prompt = part();
  for (std::size_t i = 0; i < spans; ++i) layer.spans.push_back(part());
  layer.coupling = random.below(5) == 0 ? 1 : random.uniform();
  for (std::size_t i = 0; i < gaps; ++i) layer.gate_gaps.push_back(0.1 + 2 * random.uniform());
  if (gaps > 0) layer.gate_sum = 0.2 + 3 * random.uniform();
  return layer;
}

inline RoutingLaw random_law(Random& random) {
  RoutingLaw law;
  law.model = "random " + std::to_string(random.below(1000));
  law.provenance = "made up";
  law.experts = between(random, 1, 40);
  law.top_k = between(random, 1, std::min(law.experts, 8u));
  law.prompt_tokens = 1000 * random.uniform();
  law.decode_tokens = 1000 * random.uniform();
  for (std::uint32_t i = between(random, 0, 3); i-- > 0;)
    law.span_tokens.push_back(0.1 + 100 * random.uniform());
  const std::uint32_t domains = between(random, 0, 4);
  double sum = 0;
  for (std::uint32_t d = 0; d < domains; ++d) {
    law.domains.push_back("domain " + std::to_string(d));
    law.domain_shares.push_back(0.1 + random.uniform());
    sum += law.domain_shares.back();
  }
  for (double& share : law.domain_shares) share /= sum;
  const std::uint32_t layers = between(random, 1, 5);
  const std::uint32_t encoder = random.below(3) == 0 ? between(random, 0, layers) : 0;
  const std::size_t gaps = random.below(3) == 0 ? 0 : between(random, 1, 5);
  law.basis = static_cast<LawBasis>(random.below(4));
  if (law.basis != LawBasis::fitted) law.points = 0.001 * between(random, 1, 200);
  for (std::uint32_t l = 0; l < layers; ++l) {
    law.layers.push_back(random_layer(random, law.experts, law.span_tokens.size(), gaps));
    law.layers.back().encoder = l < encoder;
  }
  return law;
}

inline bool same_layer(const LayerLaw& a, const LayerLaw& b) {
  return a.encoder == b.encoder && a.bias == b.bias && a.domain == b.domain && a.prompt == b.prompt &&
         a.spans == b.spans && a.coupling == b.coupling && a.gate_gaps == b.gate_gaps &&
         a.gate_sum == b.gate_sum;
}

inline bool same_law(const RoutingLaw& a, const RoutingLaw& b) {
  return a.model == b.model && a.provenance == b.provenance && a.experts == b.experts && a.top_k == b.top_k &&
         a.prompt_tokens == b.prompt_tokens && a.decode_tokens == b.decode_tokens &&
         a.span_tokens == b.span_tokens && a.domains == b.domains && a.domain_shares == b.domain_shares &&
         a.basis == b.basis && a.points == b.points &&
         std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(), same_layer);
}

}  // namespace moelab::test
