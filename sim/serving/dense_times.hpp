// How long the dense part of each layer takes in a pass: computed once for all layers that are alike.
#pragma once

#include <cstdint>
#include <vector>

#include "models/timing.hpp"
#include "sim/serving/batch.hpp"

namespace moelab {

class DenseTimes {
 public:
  DenseTimes(const Architecture& model, const TimingModel& timing);
  void begin(const Pass& pass);
  /// Attention with the gate and, in a dense layer, its feed-forward part. Seconds, hand-over included.
  double dense(std::size_t layer);
  /// The shared experts; 0: the layer has none.
  double shared(std::size_t layer);
  /// The output embedding for the rows whose next token is wanted; 0: none is.
  double head() const;

 private:
  static constexpr double kUnknown = -1;
  double compute_dense(const Layer& layer) const;
  double compute_shared(const Layer& layer) const;

  const Architecture& model_;
  const TimingModel& timing_;
  std::vector<std::size_t> kind_;       // by layer: the first layer that equals it
  std::vector<double> dense_, shared_;  // by kind, of this pass
  Pass pass_;                           // without its rows
};

}  // namespace moelab
