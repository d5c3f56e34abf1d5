// A seeded generator of routing traces for when nothing was recorded: the same parameters and seed give the
// same bytes on every machine. Everything it makes says "synthetic".
//
// The law, for each layer by itself:
//   popularity   over a random order of the experts, rank r (from 0) weighs (r + 1)^-skew; the model has one
//                order, each request has its own, and a request draws by the weights
//                (1 - drift) * model's + drift * own, both scaled to sum 1
//   experts      each expert of the request's token before is kept with probability `reuse`; the other places
//                are drawn by weight, without replacement (those not kept may be drawn again)
//   order        kept experts first, then drawn ones, moved by noise
//   scores       logarithms of neighbours' ratios are exponential of mean gate_decay; scaled to sum 1
//   all scores   (on request) the experts not chosen follow in the order in which the draws would have gone
//                on. Logarithms of neighbours' ratios go on as exponentials, with i of the n experts above
//                and n - i below of mean c * n / (i (n - i)), the gaps of n sorted draws from a logistic law;
//                c is such that those of the chosen experts would have the mean gate_decay. Scaled to sum 1
//                over all experts, as a softmax is. Chosen experts and their scores are the same without.
// Layers do not know of each other, so whatever predicts a layer from the one before can learn only the
// popularity here (on gpt-oss-20b it recalls 0.57 of the next layer's experts, popularity alone 0.22).
//
// The law of all scores is near the recorded router of debian-moe-8x32 (8 layers x 32 experts, top-4): with c
// from their sum, gaps are within 11 % of it at ranks 4 to 28 (the last are narrower, 0.71 of it), and their
// standard deviations 0.99 to 1.03 of their means. An inactive expert's chance to be chosen by the next token
// falls with its rank as it does there: 0.21 recorded and 0.23 generated at rank 5, 0.16 and 0.16 at rank 8,
// 0.12 and 0.10 at rank 12, 0.05 and 0.03 at rank 29.
//
// The four defaults are fitted to 360 recorded answers of gpt-oss-20b (24 layers x 32 experts, top-4, decode
// tokens; AmanPriyanshu/GPT-OSS-MoE-ExpertFingerprinting, commit 72b368f), whose figures they give so:
//                                                       recorded   generated
//   share of the busiest quarter of experts             0.49        0.49
//     the same within one answer                        0.68        0.69
//   expert already used by the token before             0.44        0.45
//   LRU hit rate, 12.5 % of a layer's experts cached    0.35        0.34
//     25 %                                              0.62        0.61
//     50 %                                              0.89        0.83
//     75 %                                              0.97        0.93
//   mean score of the first / fourth expert             0.35 / 0.17 0.35 / 0.17
// The tail is where the law is too heavy: recorded answers leave more experts all but untouched. Other models
// differ: the busiest quarter has 0.27 (Mixtral-8x7B) to 0.90 (Switch).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/routing_trace.hpp"

namespace moelab {

/// Sizes are limited so that the trace stays below 16 GiB in memory (2 + 4 bytes for each token, layer and
/// chosen expert; with all_scores 4 more for each token, layer and expert).
struct GeneratorParameters {
  std::string model;                  // identity written into the trace
  std::uint32_t layers = 0;           // MoE layers; for encoder-decoders encoder layers come first
  std::uint32_t encoder_layers = 0;   // how many of `layers` run for prompt tokens only (the others run for
                                      // decode tokens only); 0: a decoder, whose layers run for all tokens
  std::uint32_t experts = 0;          // a layer, 1 to 65535
  std::uint32_t top_k = 0;            // 1 to experts
  std::uint32_t requests = 1;         // at least 1
  std::uint32_t first_request = 0;    // number of the first one: other numbers, other requests to one model
  std::uint32_t prompt_tokens = 128;  // a request, at least 1
  std::uint32_t output_tokens = 128;  // generated tokens a request, the first included; at least 1
  double skew = 1.4;                  // s: popularity of rank r is (r + 1)^-s; 0 to 10
  double reuse = 0.2;   // probability that an expert of the token before is used again, beyond chance; 0 to 1
  double drift = 0.55;  // share of a prompt's own popularity in the mixture with the model's; 0 to 1
  double gate_decay = 0.24;  // score of rank r is proportional to exp(-gate_decay * r), jittered; 0 to 20
  bool all_scores = false;   // router scores of all experts too (RouterScores::softmax)
  std::uint64_t seed = 1;
  /// Of each request, in place of `requests`, prompt_tokens and output_tokens; empty: all are alike.
  struct Lengths {
    std::uint32_t prompt_tokens = 1, output_tokens = 1;
  };
  std::vector<Lengths> lengths = {};
};

/// Each request has prompt_tokens prompt rows (Phase::encoder for encoder-decoders, else Phase::prefill),
/// then decode rows: output_tokens for encoder-decoders, else output_tokens - 1, because the first generated
/// token comes out of the prompt's pass. A request's rows depend on its number and the parameters, not on how
/// many requests there are. Throws InputError that names every parameter out of its range.
RoutingTrace generate_routing_trace(const GeneratorParameters& parameters);

}  // namespace moelab
