// A seeded generator of routing traces for when nothing was recorded: the same parameters and seed give the
// same bytes on every machine. Everything it makes says "synthetic".
#pragma once

#include <cstdint>
#include <string>

#include "traces/routing_trace.hpp"

namespace moelab {

struct GeneratorParameters {
  std::string model;         // identity written into the trace
  std::uint32_t layers = 0;  // MoE layers; for encoder-decoders encoder layers come first
  std::uint32_t encoder_layers =
      0;  // how many of `layers` run for prompt tokens only (the others run for decode only)
  std::uint32_t experts = 0;
  std::uint32_t top_k = 0;
  std::uint32_t requests = 1;
  std::uint32_t prompt_tokens = 128;
  std::uint32_t output_tokens = 128;  // generated tokens a request, the first included
  double skew = 0.6;                  // s: popularity of rank r is (r + 1)^-s
  double reuse = 0.3;       // probability that an expert of the token before is used again, beyond chance
  double drift = 0.5;       // share of a prompt's own popularity in the mixture with the model's
  double gate_decay = 0.3;  // score of rank r is proportional to exp(-gate_decay * r), jittered
  std::uint64_t seed = 1;
};

RoutingTrace generate_routing_trace(const GeneratorParameters& parameters);

}  // namespace moelab
