// Routing drawn from how often each expert is used: for when counts of a task are all there is, of a real
// model's use by kind of prompt, say, and tokens are needed to serve.
//
// The law, for each layer by itself. A token takes top_k = k distinct experts, and expert e is among them
// with the probability
//   p_e = min(1, f * w_e),   f such that the sum over e is k:
// in proportion to its weight w_e where k * w_e is at most the sum of the weights; an expert beyond that is
// always taken, and the rest share the other places in the same way. That is exact: counts of the rows tend
// to the weights (what is beyond was never possible, since no token takes an expert twice).
//   experts      the p_e of those not always taken are laid end to end, in a new random order for each row,
//   on
//                a line of whole length; from a uniform start below 1 every whole step hits an expert
//                (systematic sampling: Madow, Annals of Mathematical Statistics 20(3), 1949)
//   reuse        with probability `reuse` a layer's row is the token's before instead; experts have the same
//                chance in it, and of a token's experts the share reuse + (1 - reuse) * (sum of p_e^2) / k is
//                used again by the next one
// Layers do not know of each other. There are no gate scores, and a row's experts are in no order: the counts
// say nothing of either.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/counts_trace.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

struct CountsRouting {
  std::string model;          // identity written into the trace
  std::string source;         // what the weights are of, for the trace's provenance; may be empty
  std::uint32_t layers = 0;   // MoE layers, all of which run for all tokens; at least 1
  std::uint32_t experts = 0;  // a layer, 1 to 65535
  std::uint32_t top_k = 0;    // 1 to experts
  std::uint64_t tokens = 0;   // at least 1; the trace's experts (2 bytes each) stay below 16 GiB
  double reuse = 0;           // 0 to 1
  std::uint64_t seed = 1;
};

/// p_e of the law above, [experts], of weights between 0 and 1e300. Throws InputError where one is not, and
/// where fewer than top_k are above 0: then no token can have been counted.
std::vector<double> inclusion_probabilities(std::span<const double> weights, std::uint32_t top_k);

/// One request of `tokens` prompt rows (Phase::prefill). The same parameters, weights [layers, experts] and
/// seed give the same bytes on every machine, and fewer tokens are the first ones of more. Throws InputError
/// that names every parameter out of its range, a number of weights that is not layers * experts, and layers
/// whose weights inclusion_probabilities refuses.
RoutingTrace draw_routing(const CountsRouting& parameters, std::span<const double> weights);

/// Of the counts of a domain; the parameters' source is then the counts' model and domain. Throws InputError
/// also where the counts are of other numbers of layers or experts.
RoutingTrace draw_routing(const CountsRouting& parameters, const CountsTrace& counts,
                          std::string_view domain);

/// The counts of a domain's prompts, added up: [layers, experts]. "": of all prompts. Throws InputError with
/// the nearest domain where there is none of that name.
std::vector<double> domain_weights(const CountsTrace& counts, std::string_view domain);

}  // namespace moelab
