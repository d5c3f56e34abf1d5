#include "hw/compute/expert_ffn.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "hw/compute/matrix_product.hpp"

namespace moelab {

ExpertFfn::ExpertFfn(const ExpertShape& shape) : shape_(shape) {
  if (shape.hidden == 0 || shape.width == 0) throw std::invalid_argument("an expert's sizes are at least 1");
  if (shape.matrices != 2 && shape.matrices != 3)
    throw std::invalid_argument("an expert has 2 or 3 matrices");
}

ExpertTensors ExpertFfn::tensors_in(std::span<const std::uint16_t> weights) const {
  if (weights.size() != shape_.weights())
    throw std::invalid_argument("an expert's weights have not the size of its shape");
  const std::size_t one = shape_.hidden * shape_.width;
  return {weights.first(shape_.matrices == 3 ? one : 0), weights.last(2 * one).first(one), weights.last(one)};
}

void ExpertFfn::run(const ExpertTensors& tensors, std::span<const float> in, std::size_t tokens,
                    std::span<float> out) {
  const auto [hidden, width, matrices] = shape_;
  up_.resize(tokens * width);
  multiply(tensors.up, width, hidden, in, tokens, up_);
  if (matrices == 3) {
    gate_.resize(tokens * width);
    multiply(tensors.gate, width, hidden, in, tokens, gate_);
    for (std::size_t i = 0; i < up_.size(); ++i) up_[i] *= gate_[i] / (1.0F + std::exp(-gate_[i]));
  } else {
    for (float& value : up_) value = std::max(value, 0.0F);
  }
  multiply(tensors.down, hidden, width, up_, tokens, out);
}

}  // namespace moelab
