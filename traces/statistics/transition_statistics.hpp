// How well a layer's experts foretell the next layer's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/statistics/popularity_order.hpp"

namespace moelab {

/// What the transition predictor has learnt.
struct TransitionCounts {
  std::vector<std::int32_t> together;  // [experts before, experts now or more]: tokens that used both
  std::vector<std::int32_t> before;    // tokens that used an expert before
};

/// Two predictors of the experts that a token uses in a layer, both learning as they go: each token is
/// predicted from the tokens before it, then learnt.
///   transition   score of expert f = sum over the token's experts e in the layer before of the share of e's
///                tokens that went on to f
///   popularity   score of f = tokens that used f so far
/// The k best scores are the prediction (equal ones: the smaller id; transition scores are sums in
/// single precision). Recall is the share of the experts used that were predicted, over all tokens.
class TransitionStatistics {
 public:
  TransitionStatistics(std::uint32_t experts, std::uint32_t top_k);
  /// The token's experts in the layer before and in this one.
  void add_token(std::span<const std::uint16_t> before, std::span<const std::uint16_t> now);
  double recall() const;             // NaN without tokens
  double popularity_recall() const;  // NaN without tokens

 private:
  using CountForetold = std::size_t (*)(const TransitionCounts&, std::span<const std::uint16_t> before,
                                        std::span<const std::uint16_t> now, std::span<float> scores);

  std::uint32_t top_k_;
  std::uint64_t tokens_ = 0, transition_hits_ = 0, popularity_hits_ = 0;
  CountForetold count_foretold_;  // the processor's
  TransitionCounts counts_;
  PopularityOrder popularity_;
  std::vector<float> scores_;
};

}  // namespace moelab
