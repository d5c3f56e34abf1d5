// Laws from few numbers: where of a model's routing some figures are known, or only its shape.
#pragma once

#include <cstdint>
#include <string>

#include "traces/law/routing_law.hpp"

namespace moelab {

/// What a law needs to know of a model.
struct RoutingShape {
  std::uint32_t layers = 0;          // MoE layers
  std::uint32_t encoder_layers = 0;  // of them, the first ones
  std::uint32_t experts = 0;         // routed experts a layer
  std::uint32_t top_k = 0;
  /// Share of a token's feed-forward work that is not routed: of shared experts and of dense layers.
  double apart = 0;
};
RoutingShape routing_shape(const Architecture& model);

/// The three numbers that models differ in most. All are of the mean layer; law_of_terms() says how layers
/// differ.
struct LawTerms {
  double bias = 0;    // standard deviation of the experts' popularity, in those of a token's other terms
  double prompt = 0;  // weight of what stays through a request; 0 to 1
  double spans = 0;   // weight of what changes along its tokens; 0 to 1, with `prompt` at most 1
};

/// A law of that shape with these terms: popularity is normal over the ranks, layers are by their depth as
/// gpt-oss-20b's, OLMoE's and Gemma 4's are in the mean, coupling and gates are gpt-oss-20b's. No domains.
RoutingLaw law_of_terms(const RoutingShape& shape, const LawTerms& terms);

/// The terms that models of such a shape have: the rule. Its constants, and how near it comes, are in
/// law_shape.cpp.
LawTerms terms_by_rule(const RoutingShape& shape);

/// How near the rule comes, in LRU's hit rate: see law_shape.cpp.
extern const double kRulePoints;

}  // namespace moelab
