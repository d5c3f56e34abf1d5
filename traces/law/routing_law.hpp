// The law of a fitted generator: what `moelab trace fit` learns from a recording and `moelab trace generate`
// draws from, at the recording's sizes or others.
//
// It is a router in miniature. In every layer, each expert has a logit for each token, and the k best are
// chosen:
//
//   logit = bias + sqrt(domain) D + sqrt(prompt) P + sum_i sqrt(spans[i]) S_i + sqrt(rest) N
//
// bias is the expert's popularity; all other terms are standard normal numbers: D is one for each domain
// (less their mean), P one for each request, S_i changes along the tokens of a request with correlation
// exp(-1 / tokens_i) from one to the next, N is new for each token. The weights of the terms add up to 1.
// From layer to layer each of them has the correlation `coupling` between experts of the same popularity
// rank. Gates come from the logits' order and gaps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/architecture.hpp"

namespace moelab {

class Problems;
class YamlDocument;

struct LayerLaw {
  bool encoder = false;      // runs for encoder tokens only; in a law with such layers, the others for decode
  std::vector<double> bias;  // by popularity rank, falling; in standard deviations of the other terms' sum
  double domain = 0;         // the terms' weights, each 0 to 1, together at most 1; what is left is N's
  double prompt = 0;
  std::vector<double> spans;  // as many as RoutingLaw::span_tokens
  double coupling = 0;        // 0 to 1; with the layer before in the same stack
  /// Gap of the gates' logarithms between ranks r and r + 1 for a gap of 1 between logits; ranks from the
  /// best, the last value holds for all that follow. Empty: the recording had no gates.
  std::vector<double> gate_gaps;
  double gate_sum = 1;  // sum of the chosen experts' gates
};

/// What stands behind a law.
enum class LawBasis : std::uint8_t {
  fitted,     // to a recording, as `moelab trace fit` makes it; how near it comes is not said
  measured,   // fitted to a recording of the model, tested on the part that it was not fitted to
  published,  // fitted to what is published of the model: hit rates, reuse, counts (published_figures.hpp)
  rule,       // from the model's shape alone (law_shape.hpp)
};

struct RoutingLaw {
  std::string model;       // of the recording
  std::string provenance;  // of the fit: from what
  std::uint32_t experts = 0;
  std::uint32_t top_k = 0;
  double prompt_tokens = 0;         // mean prompt rows a request
  double decode_tokens = 0;         // mean decode rows a request
  std::vector<double> span_tokens;  // time constants of the S_i, in tokens
  std::vector<std::string> domains;
  std::vector<double> domain_shares;  // of the requests; sum 1
  std::vector<LayerLaw> layers;
  LawBasis basis = LawBasis::fitted;
  /// How near hit rates of LRU with places for 25, 50 and 75 % of the experts come to the model's: 0.02 is
  /// two points. 0 where `basis` is `fitted`.
  double points = 0;

  bool has_gates() const;
  bool has_encoder() const;
};

/// The law for other sizes: layers by their relative depth (each stack by itself), the popularity curve over
/// the relative rank; what lies between is linear. `encoder_layers` of `layers` come first.
RoutingLaw resized(const RoutingLaw& law, std::uint32_t layers, std::uint32_t encoder_layers,
                   std::uint32_t experts, std::uint32_t top_k);

/// The law at a model's sizes and under its name; its provenance says what was resized.
RoutingLaw law_for_model(const RoutingLaw& law, const Architecture& model);

/// YAML, complete: reading it back gives the same law.
std::string to_yaml(const RoutingLaw& law);
/// Throws InputError with file and line of everything that is wrong.
RoutingLaw read_routing_law(const std::string& path);
RoutingLaw read_routing_law(const YamlDocument& document, Problems& problems);
/// By name or path, through the configuration store. Throws InputError.
RoutingLaw load_routing_law(std::string_view name, const std::string& base = {});

}  // namespace moelab
