#include "sim/serving/step_gates.hpp"

#include <algorithm>
#include <cmath>

namespace moelab {
namespace {

void softmax(std::span<float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float& x : logits) sum += x = std::exp(x - most);
  for (float& x : logits) x /= sum;
}

}  // namespace

bool has_all_scores(const RoutingTrace& trace) {
  const TraceDescription& description = trace.description();
  return description.router_scores != RouterScores::none && description.candidates == 0;
}

void StepGates::read(const Pass& pass, std::uint32_t moe_layer) {
  const std::size_t experts = trace_.experts();
  scores_.resize(std::max(scores_.size(), std::size_t{pass.tokens} * experts));
  tokens_.clear();
  ahead_.clear();
  std::fill(summed_.begin(), summed_.end(), 0.0F);
  for (const auto& [begin, end] : pass.rows)
    for (std::uint64_t row = begin; row < end; ++row) {
      const std::span<const std::uint16_t> chosen = trace_.experts_of(row, moe_layer);
      if (chosen[0] == kNoExpert) continue;
      const std::span<float> scores(&scores_[tokens_.size() * experts], experts);
      trace_.router_scores_of(row, moe_layer, scores);
      if (trace_.description().router_scores == RouterScores::logits) softmax(scores);
      for (std::size_t e = 0; e < experts; ++e) summed_[e] += scores[e];
      std::span<const std::uint16_t> predicted = trace_.lookahead_of(row, moe_layer);
      if (!predicted.empty() && predicted[0] == kNoExpert) predicted = {};
      tokens_.push_back({chosen, scores});
      ahead_.push_back({chosen, scores, predicted});
    }
}

}  // namespace moelab
