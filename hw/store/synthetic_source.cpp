#include "hw/store/synthetic_source.hpp"

#include <bit>
#include <stdexcept>

#include "traces/law/normal.hpp"
#include "traces/portable_math.hpp"

namespace moelab {

namespace {

constexpr double kSpread = 0.02;
constexpr double kTensorLogSpread = 0.1, kRowLogSpread = 0.35;

/// To the nearest, ties to even. Finite values far from BF16's largest.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

SyntheticSource::SyntheticSource(ExpertWeights weights, std::uint64_t seed)
    : weights_(std::move(weights)), seed_(seed) {
  weights_.source = identity();
}

std::string SyntheticSource::identity() const {
  return "synthetic, seed " + std::to_string(seed_);
}

void SyntheticSource::read(TensorPlace place, std::span<std::uint16_t> into) const {
  const ExpertTensorKind& kind = weights_.kinds[place.kind];
  if (into.size() != kind.elements()) throw std::invalid_argument("a tensor is read into as many elements");
  const Normal& normal = Normal::instance();
  Random random(seed_, place.layer, std::uint64_t{place.expert} << 8 | place.kind);
  const double tensor_scale = kSpread * portable_exp(kTensorLogSpread * normal.draw(random));
  for (std::uint64_t row = 0; row < kind.rows; ++row) {
    const double scale = tensor_scale * portable_exp(kRowLogSpread * normal.draw(random));
    for (std::uint16_t& weight : into.subspan(row * kind.columns, kind.columns))
      weight = to_bf16(static_cast<float>(scale * normal.draw(random)));
  }
}

}  // namespace moelab
