// A stand-in for predicting the next layers' gates, where the trace has no hidden states to predict from.
//
// NOT a prediction: the recorded gate is known, and is degraded to an accuracy that the caller states. For a
// token with the top-score experts e(0), e(1), ... (policies/routing/score_classes.hpp; by falling score):
//
//   for each rank r: u = uniform(seed, step, layer, token, r)
//     u < accuracy.top:     names e(r)
//     u < accuracy.active:  names a low-score active expert not named yet, if there is one, else
//     otherwise:            names an inactive expert not named yet; where none is left, nothing
//     the one named counts with the score of e(r), whose place it takes
//
// So a token is foretold as many top-score experts as it has. Of those named, the share `top` is top-score,
// and `active` are active; less are active where tokens have fewer low-score experts than wrong ranks.
//
// The accuracy is that of what has to be fetched, since that is what was measured ("prefetched experts"): an
// expert that is on the GPU is named when it is top-score, without a draw, and never by mistake. Were
// mistakes as frequent among these, which are most, then those among the fetched would be far more frequent.
//
// Who is named wrongly is drawn by score (uniformly where no score is above 0): a gate that is given nearly
// the right hidden state goes wrong among the experts next to the boundary and not anywhere.
// The draws depend on (seed, step, layer, token, rank) only: on no order of calls, no other token and not on
// the accuracy. A layer predicted from afar and again from nearby, with more accuracy, keeps its right names.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/score_classes.hpp"

namespace moelab {

/// Shares of the experts that a prediction names: 0 <= top <= active <= 1.
struct PredictionAccuracy {
  double top = 1;
  double active = 1;
};

struct PredictedExpert {
  std::uint32_t expert = 0;
  double score = 0;  // as predicted
  bool operator==(const PredictedExpert&) const = default;
};

/// A layer's prediction for all tokens of a pass.
struct PredictedLayer {
  std::vector<std::uint32_t> experts;  // named at least once, in ascending order
  std::vector<double> scores;          // [all experts]: summed over the tokens that name it
  std::vector<std::uint32_t> tokens;   // [all experts]: how many name it
};

class GatePredictor {
 public:
  /// `alpha`: bound of the classes; 0: every active expert is top-score.
  GatePredictor(std::uint64_t seed, double alpha) : seed_(seed), alpha_(alpha) {}

  /// Fills `named` with what is foretold of one token (cleared first; its memory is reused). `gate.scores`
  /// without NaN, `gate.chosen` by falling score.
  /// `resident`: [experts] 1: on the GPU; empty: none is.
  void predict(std::uint64_t step, std::uint32_t layer, std::uint64_t token, const GateAhead& gate,
               const PredictionAccuracy& accuracy, std::vector<PredictedExpert>& named,
               std::span<const std::uint8_t> resident = {});

  /// The same from what the recording itself predicted, `gate.predicted`, which has no scores: its r-th
  /// expert is taken to have the score of the token's r-th, and to be foretold as top-score if that one is.
  void recorded(const GateAhead& gate, std::vector<PredictedExpert>& named);

  /// Fills `layer_prediction` from all tokens of a pass, of which token t is number t.
  void predict_layer(std::uint64_t step, std::uint32_t layer, std::span<const GateAhead> tokens,
                     const PredictionAccuracy& accuracy, PredictedLayer& layer_prediction,
                     std::span<const std::uint8_t> resident = {});
  void recorded_layer(std::span<const GateAhead> tokens, PredictedLayer& layer_prediction);

 private:
  enum class Class : std::uint8_t { inactive, low, top, named };
  void classify(const GateAhead& gate);
  bool draw(Class wanted, double u, std::span<const float> scores, std::uint32_t& expert) const;
  void start_layer(std::span<const GateAhead> tokens, PredictedLayer& layer_prediction) const;
  void add_named(PredictedLayer& layer_prediction) const;
  static void finish_layer(PredictedLayer& layer_prediction);

  const std::uint64_t seed_;
  const double alpha_;
  std::vector<Class> classes_;  // [experts]
  std::vector<float> ordered_;
  std::vector<PredictedExpert> named_;
};

}  // namespace moelab
