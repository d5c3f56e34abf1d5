#include "policies/prefetch/gate_predictor.hpp"

#include <cassert>

namespace moelab {
namespace {

/// SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014) on `state` after one step.
std::uint64_t mixed(std::uint64_t state) {
  std::uint64_t z = state + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Numbers of the draws that belong to one rank of one token.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t step, std::uint64_t layer, std::uint64_t token, std::uint64_t rank)
      : key_(mixed(mixed(mixed(mixed(mixed(seed) ^ step) ^ layer) ^ token) ^ rank)) {}
  /// Uniform in [0, 1).
  double operator[](std::uint64_t number) const {
    return static_cast<double>(mixed(key_ ^ number) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t key_;
};

}  // namespace

void GatePredictor::predict(std::uint64_t step, std::uint32_t layer, std::uint64_t token,
                            const GateAhead& gate, const PredictionAccuracy& accuracy,
                            std::vector<PredictedExpert>& named, std::span<const std::uint8_t> resident) {
  assert(0 <= accuracy.top && accuracy.top <= accuracy.active && accuracy.active <= 1);
  named.clear();
  classify(gate);
  for (std::size_t e = 0; e < resident.size(); ++e)
    if (resident[e] != 0 && classes_[e] != Class::top) classes_[e] = Class::named;
  for (std::size_t rank = 0; rank < gate.chosen.size(); ++rank) {
    std::uint32_t expert = gate.chosen[rank];
    const double score = gate.scores[expert];
    if (classes_[expert] != Class::top) continue;
    const Draws draws(seed_, step, layer, token, rank);
    const double outcome = draws[0];
    const bool there = !resident.empty() && resident[expert] != 0;
    if (!there && outcome >= accuracy.top) {
      const bool found = (outcome < accuracy.active && draw(Class::low, draws[1], gate.scores, expert)) ||
                         draw(Class::inactive, draws[1], gate.scores, expert);
      if (!found) continue;
      classes_[expert] = Class::named;
    }
    named.push_back({expert, score});
  }
}

void GatePredictor::recorded(const GateAhead& gate, std::vector<PredictedExpert>& named) {
  assert(gate.predicted.size() == gate.chosen.size());
  named.clear();
  classify(gate);
  for (std::size_t rank = 0; rank < gate.chosen.size(); ++rank)
    if (classes_[gate.chosen[rank]] == Class::top)
      named.push_back({gate.predicted[rank], gate.scores[gate.chosen[rank]]});
}

void GatePredictor::predict_layer(std::uint64_t step, std::uint32_t layer, std::span<const GateAhead> tokens,
                                  const PredictionAccuracy& accuracy, PredictedLayer& layer_prediction,
                                  std::span<const std::uint8_t> resident) {
  start_layer(tokens, layer_prediction);
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    predict(step, layer, token, tokens[token], accuracy, named_, resident);
    add_named(layer_prediction);
  }
  finish_layer(layer_prediction);
}

void GatePredictor::recorded_layer(std::span<const GateAhead> tokens, PredictedLayer& layer_prediction) {
  start_layer(tokens, layer_prediction);
  for (const GateAhead& token : tokens) {
    recorded(token, named_);
    add_named(layer_prediction);
  }
  finish_layer(layer_prediction);
}

void GatePredictor::classify(const GateAhead& gate) {
  const ScoreBounds bounds = score_bounds(gate.scores, gate.chosen.size(), alpha_, ordered_);
  classes_.assign(gate.scores.size(), Class::inactive);
  for (const std::uint16_t expert : gate.chosen)
    classes_[expert] = bounds.is_low(gate.scores[expert]) ? Class::low : Class::top;
}

/// One of the class `wanted` by score, with `u` from [0, 1). False where there is none.
bool GatePredictor::draw(Class wanted, double u, std::span<const float> scores, std::uint32_t& expert) const {
  double mass = 0;
  std::uint32_t count = 0;
  for (std::uint32_t e = 0; e < classes_.size(); ++e) {
    if (classes_[e] != wanted) continue;
    ++count;
    if (scores[e] > 0) mass += scores[e];
  }
  if (count == 0) return false;
  double left = u * (mass > 0 ? mass : count);
  for (std::uint32_t e = 0; e < classes_.size(); ++e) {
    if (classes_[e] != wanted || (mass > 0 && !(scores[e] > 0))) continue;
    expert = e;  // the last one, should rounding leave a rest
    left -= mass > 0 ? double{scores[e]} : 1;
    if (left < 0) break;
  }
  return true;
}

void GatePredictor::start_layer(std::span<const GateAhead> tokens, PredictedLayer& layer_prediction) const {
  const std::size_t experts = tokens.empty() ? 0 : tokens.front().scores.size();
  layer_prediction.experts.clear();
  layer_prediction.scores.assign(experts, 0);
  layer_prediction.tokens.assign(experts, 0);
}

void GatePredictor::add_named(PredictedLayer& layer_prediction) const {
  for (const PredictedExpert& one : named_) {
    layer_prediction.scores[one.expert] += one.score;
    ++layer_prediction.tokens[one.expert];
  }
}

void GatePredictor::finish_layer(PredictedLayer& layer_prediction) {
  for (std::uint32_t expert = 0; expert < layer_prediction.tokens.size(); ++expert)
    if (layer_prediction.tokens[expert] > 0) layer_prediction.experts.push_back(expert);
}

}  // namespace moelab
