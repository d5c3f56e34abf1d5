// The gates of a pass at one MoE layer: what the model chose for every token, and what it gave every expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "sim/serving/pass.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// Whether a trace says what the router gave every expert, not only those chosen.
bool has_all_scores(const RoutingTrace& trace);

/// Scores are probabilities: logits go through a softmax over all experts of the layer, whatever the model
/// does with the chosen ones afterwards; sigmoid scores stay as they are.
class StepGates {
 public:
  /// Precondition: has_all_scores(trace).
  explicit StepGates(const RoutingTrace& trace) : trace_(trace), summed_(trace.experts()) {}
  /// Reads those tokens of the pass for which the layer runs. What the members below give is valid until the
  /// next call.
  void read(const Pass& pass, std::uint32_t moe_layer);

  std::span<const TokenGate> tokens() const { return tokens_; }
  std::span<const GateAhead> ahead() const { return ahead_; }  // the same tokens
  std::span<const float> summed() const { return summed_; }    // [experts], over the tokens

 private:
  const RoutingTrace& trace_;
  std::vector<float> scores_;  // [tokens, experts]
  std::vector<float> summed_;
  std::vector<TokenGate> tokens_;
  std::vector<GateAhead> ahead_;
};

}  // namespace moelab
