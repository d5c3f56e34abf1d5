// Weights that compress as trained ones do, for models whose checkpoint is not at hand.
#pragma once

#include <cstdint>

#include "hw/store/weight_source.hpp"

namespace moelab {

/// Each tensor is Gaussian by rows: weight = t r n, with n standard normal, r = exp(0.35 N) for its row and
/// t = 0.02 exp(0.1 N) for its tensor, rounded to the nearest BF16. Its exponents have 2.68 bits of entropy
/// (trained models: 2.55 to 2.74) and its sign-mantissa plane 7.97 of 8: a fair stand-in for what codecs
/// meet. The same seed gives the same weights on every machine.
class SyntheticSource final : public WeightSource {
 public:
  SyntheticSource(ExpertWeights weights, std::uint64_t seed);

  const ExpertWeights& weights() const override { return weights_; }
  std::string identity() const override;
  void read(TensorPlace place, std::span<std::uint16_t> into) const override;

 private:
  ExpertWeights weights_;
  std::uint64_t seed_;
};

}  // namespace moelab
