#include "sim/serving/layer_uses.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace moelab {

void LayerUses::add(const RoutingTrace& trace, std::uint64_t row, std::uint32_t moe_layer) {
  const auto ids = trace.experts_of(row, moe_layer);
  if (ids[0] == kNoExpert) return;
  for (const std::uint16_t id : ids) {
    used_[id >> 6] |= std::uint64_t{1} << (id & 63);
    ++tokens_[id];
  }
  if (!wants_scores_ || !trace.has_scores()) return;
  const auto scores = trace.scores_of(row, moe_layer);
  for (std::size_t r = 0; r < ids.size(); ++r) scores_[ids[r]] += scores[r];
}

std::span<const ExpertUse> LayerUses::collect(const RoutingTrace& trace, const Pass& pass,
                                              std::uint32_t moe_layer) {
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row) add(trace, row, moe_layer);
  return finish();
}

std::span<const ExpertUse> LayerUses::collect(std::span<const TokenGate> tokens, const StepRouting& routing) {
  std::fill(low_score_.begin(), low_score_.end(), std::uint8_t{0});
  for (const std::uint16_t id : routing.experts) low_score_[id] = 1;
  std::size_t place = 0;
  for (const TokenGate& token : tokens)
    for (std::size_t r = 0; r < token.chosen.size(); ++r, ++place) {
      const std::uint16_t id = routing.experts[place];
      used_[id >> 6] |= std::uint64_t{1} << (id & 63);
      ++tokens_[id];
      scores_[id] += token.scores[id];
      if (routing.roles[place] == ExpertRole::top) low_score_[id] = 0;
    }
  return finish();
}

std::span<const ExpertUse> LayerUses::finish() {
  uses_.clear();
  for (std::uint32_t word = 0; word < used_.size(); ++word) {
    for (std::uint64_t left = std::exchange(used_[word], 0); left != 0; left &= left - 1) {
      const std::uint32_t expert = (word << 6) + static_cast<std::uint32_t>(std::countr_zero(left));
      uses_.push_back({expert, std::exchange(tokens_[expert], 0U), std::exchange(scores_[expert], 0.0F),
                       kNeverUsedAgain});
    }
  }
  return uses_;
}

}  // namespace moelab
