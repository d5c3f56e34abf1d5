// What changes from token to token in a law's logits (routing_law.hpp): the spans' terms and the noise, of
// all layers of a stack and all experts, eight experts at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/law/routing_law.hpp"
#include "traces/law/walsh_normals.hpp"

namespace moelab {

class TokenLogits {
 public:
  static constexpr std::size_t kTogether = 8;  // experts

  /// Of the law's layers begin .. end - 1, which are one stack. Terms that weigh nothing in all of them are
  /// not drawn.
  TokenLogits(const RoutingLaw& law, std::uint32_t begin, std::uint32_t end);

  /// A request: what its tokens have in common, [layers, experts], and where its random numbers come from.
  void begin_request(std::span<const float> common, const Random& random);
  /// Draws the next token's. Layers are numbered from the stack's first; experts by popularity rank. Filled
  /// up with -inf to a multiple of kTogether. Valid until the next call.
  void next();
  std::span<const float> of_layer(std::uint32_t layer) const {
    return std::span(logits_).subspan(layer * width_, width_);
  }

 private:
  template <std::size_t kSpans, bool kFirst>
  void step();
  template <bool kFirst>
  void step_of_any();
  void step_anywhere();
  void step_avx2();
  void refill();
  /// Normal numbers for kTogether experts of all layers; an even number of terms.
  std::size_t normals_together() const { return layers_ * ((spans_ + 2) / 2) * 2 * kTogether; }

  std::uint32_t layers_;
  std::size_t experts_, width_;  // width: experts, filled up
  std::size_t spans_ = 0;        // that are drawn
  // coefficients_: of each layer what of the layer before stays, what comes, and the weights of the spans and
  // the noise. A span's term is kept as a multiple of what comes anew with a token, which so needs no factor.
  std::vector<float> coefficients_;
  std::vector<float> carry_, start_;    // by span: what stays from token to token; the first token's factor
  std::vector<float> common_, logits_;  // [layers, width]
  std::vector<float> terms_;            // [width / kTogether, layers, spans, kTogether]
  std::vector<float> fresh_;            // [spans + 1, kTogether] of the layer before, while a token is drawn
  std::vector<std::int16_t> normals_;   // drawn and not yet used: left_ of them, from next_
  std::size_t next_ = 0, left_ = 0;
  WalshNormals source_{Random(0)};
  bool first_ = true;
  void (TokenLogits::*step_)();
};

}  // namespace moelab
