// Fits a law (routing_law.hpp) to a recording.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "traces/law/routing_law.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

struct FitOptions {
  const RoutingTrace* gates =
      nullptr;         // where gates come from, same sizes; null: the trace itself, if it has
  std::string source;  // what the provenance says that the law is fitted to
  std::function<void(std::uint64_t, std::uint64_t)>
      progress;  // steps done, all; from any thread, one at once
};

/// What is measured, and what follows from it:
///   popularity of each expert        -> bias: P(among the k best) is the expert's share of the tokens
///   overlap of tokens' experts at distances of 1 to 128 tokens in a request, and between requests of one
///   domain                           -> correlation of their logits (once the bias is known, the overlap
///   that
///                                       two tokens have is a monotone function of it) -> domain, prompt,
///                                       spans: non-negative least squares over exponentials
///   gates by rank                    -> gate_gaps, gate_sum
///   share of the busiest quarter and transition recall, on drawn requests of the same lengths and domains
///                                    -> bias is scaled, coupling found, in a few rounds
/// Throws InputError if there is too little to fit to (a layer that never runs, too), gates are not weights,
/// `gates` does not fit, or the layers for encoder tokens are not the first ones.
RoutingLaw fit_routing_law(const RoutingTrace& trace, const FitOptions& options);

/// A trace drawn from the law with the domains, phases and lengths of the requests of `like`.
RoutingTrace drawn_like(const RoutingLaw& law, const RoutingTrace& like, std::uint64_t seed);

}  // namespace moelab
