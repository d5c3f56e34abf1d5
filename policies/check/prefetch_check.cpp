// A prefetch policy as the serving loop asks it: gates of layers ahead, nearest first, then what to fetch.
#include <algorithm>
#include <array>

#include "policies/check/trial.hpp"

namespace moelab {
namespace {

PrefetchShape draw_prefetch_shape(Trial& trial) {
  Draws& draws = trial.draws;
  PrefetchShape shape{.layers = trial.smallest ? 1 : draws.between(1, 6),
                      .experts = trial.smallest ? 1 : draws.between(1, 12),
                      .seed = draws.bits()};
  shape.top_k = draws.between(1, std::min(shape.experts, 4U));
  if (draws.one_in(3)) return shape;  // one memory
  shape.load_s = draws.uniform(0, 2);
  shape.gpu_s = draws.uniform(0, 1);
  if (draws.one_in(2))
    for (double seconds = draws.uniform(0, 1); shape.cpu_s.size() < 8; seconds += draws.uniform(0, 1))
      shape.cpu_s.push_back(seconds);
  return shape;
}

/// The gates of one layer and pass, and what they come to.
struct LayerGates {
  std::vector<std::vector<float>> scores;  // by token
  std::vector<std::vector<std::uint16_t>> chosen, predicted;
  std::vector<std::uint8_t> resident;

  LayerGates(Draws& draws, const PrefetchShape& shape, std::uint32_t tokens, bool has_predicted) {
    for (std::uint32_t t = 0; t < tokens; ++t) {
      scores.push_back(draw_scores(draws, shape.experts));
      chosen.push_back(best_scored(scores.back(), shape.top_k));
      if (has_predicted)
        predicted.push_back(best_scored(draw_scores(draws, shape.experts), shape.top_k));
      else
        predicted.emplace_back();
    }
    for (std::uint32_t expert = 0; expert < shape.experts; ++expert)
      resident.push_back(static_cast<std::uint8_t>(draws.below(2)));
  }

  std::vector<GateAhead> ahead(bool has_scores) const {
    std::vector<GateAhead> gates;
    for (std::size_t t = 0; t < scores.size(); ++t)
      gates.push_back({chosen[t], has_scores ? std::span<const float>(scores[t]) : std::span<const float>(),
                       predicted[t]});
    return gates;
  }

  std::vector<ExpertUse> uses(std::uint32_t experts) const {
    std::vector<ExpertUse> uses;
    for (std::uint32_t expert = 0; expert < experts; ++expert) {
      ExpertUse use{.object = expert, .tokens = 0};
      for (std::size_t t = 0; t < chosen.size(); ++t)
        for (const std::uint16_t other : chosen[t]) {
          if (other != expert) continue;
          ++use.tokens;
          use.score += scores[t][expert];
        }
      if (use.tokens > 0) uses.push_back(use);
    }
    return uses;
  }
};

void play_pass(Trial& trial, const PrefetchPolicyEntry& entry, const PrefetchShape& shape,
               PrefetchPolicy& policy) {
  const std::uint32_t tokens = trial.smallest ? 1 : trial.draws.between(1, 5);
  const bool has_scores = entry.needs_all_scores || trial.draws.one_in(2);
  const bool has_predicted = trial.draws.one_in(2);
  std::vector<LayerGates> gates;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    gates.emplace_back(trial.draws, shape, tokens, has_predicted);
  policy.begin_step();
  std::vector<Fetch> wishes;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::uint32_t ahead = policy.gates_ahead();
    for (std::uint32_t next = layer + 1; next <= layer + ahead && next < shape.layers; ++next)
      policy.gate_ahead(next, gates[next].ahead(has_scores), gates[next].resident);
    wishes.clear();
    policy.after_gate(layer, gates[layer].uses(shape.experts), wishes);
    for (const Fetch& wish : wishes) trial.answers.add_all(std::array{wish.layer, wish.expert});
  }
}

void play_prefetch(Trial& trial, const PrefetchPolicyEntry& entry) {
  const PrefetchShape shape = draw_prefetch_shape(trial);
  const auto policy = make_prefetch_policy(entry, shape, trial.parameters, kClosely);
  for (std::uint32_t request = trial.draws.between(1, 3); request > 0; --request) {
    policy->begin_request();
    for (std::uint32_t pass = trial.draws.between(1, 6); pass > 0; --pass)
      play_pass(trial, entry, shape, *policy);
  }
}

}  // namespace

PolicyCheck check_policy(const PrefetchPolicyEntry& entry, const CheckOptions& options) {
  return play_trials("prefetch", entry.info, options, [&](Trial& trial) { play_prefetch(trial, entry); });
}

}  // namespace moelab
