// Which experts the rows of a pass use in a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/cache/cache.hpp"
#include "policies/routing/routing.hpp"
#include "sim/serving/pass.hpp"
#include "traces/routing_trace.hpp"

namespace moelab {

/// Sums up what a pass asks of one MoE layer.
class LayerUses {
 public:
  /// `scores`: whether a policy wants ExpertUse::score.
  LayerUses(std::uint32_t experts, bool scores)
      : wants_scores_(scores),
        used_((experts + 63) / 64, 0),
        tokens_(experts, 0),
        scores_(experts, 0),
        low_score_(experts, 0) {
    uses_.reserve(experts);
  }
  /// Distinct experts in ascending order, with their tokens and summed scores. Valid until the next call.
  std::span<const ExpertUse> collect(const RoutingTrace& trace, const Pass& pass, std::uint32_t moe_layer);
  /// The same of what a routing policy made of the tokens.
  std::span<const ExpertUse> collect(std::span<const TokenGate> tokens, const StepRouting& routing);
  /// Of an expert of the last call: whether none of its tokens has it among its top-score experts. Never so
  /// where no routing policy classed them.
  bool low_score(std::uint32_t expert) const { return low_score_[expert] != 0; }

 private:
  void add(const RoutingTrace& trace, std::uint64_t row, std::uint32_t moe_layer);
  std::span<const ExpertUse> finish();

  bool wants_scores_;
  std::vector<std::uint64_t> used_;  // a bit an expert: no sorting
  std::vector<std::uint32_t> tokens_;
  std::vector<float> scores_;
  std::vector<std::uint8_t> low_score_;
  std::vector<ExpertUse> uses_;
};

}  // namespace moelab
