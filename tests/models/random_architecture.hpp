// Small random architectures that use everything a model file can say. The same seed gives the same ones.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "models/architecture.hpp"

namespace moelab::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int from(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return from(0, 1) == 1; }

 private:
  std::mt19937_64 engine_;
};

inline Attention random_attention(Dice& dice, bool kv_heads_only) {
  Attention t;
  const int kind = kv_heads_only ? 0 : dice.from(0, 3);
  t.head_dim = dice.from(1, 9);
  t.value_dim = dice.from(1, 9);
  if (kind == 2) {
    t.kind = Attention::Kind::linear;
    t.linear_key_heads = dice.from(1, 4);
    t.linear_value_heads = t.linear_key_heads * dice.from(1, 3);
    t.conv_kernel = dice.from(1, 4);
    return t;
  }
  if (kind == 3) {
    t.kind = Attention::Kind::mamba2;
    t.linear_key_heads = dice.from(1, 4);
    t.linear_value_heads = t.linear_key_heads * dice.from(1, 3);
    t.conv_kernel = dice.from(1, 4);
    t.conv_bias = dice.coin();
    t.bias = dice.coin();
    t.output_bias = dice.coin();
    return t;
  }
  t.bias = dice.coin();
  t.output_bias = dice.coin();
  t.window = dice.coin() ? dice.from(1, 50) : 0;
  t.heads = dice.from(1, 4);
  if (kind == 1) {
    t.kind = Attention::Kind::mla;
    t.rope_dim = dice.from(0, 4);
    t.head_dim += t.rope_dim;
    t.kv_lora_rank = dice.from(1, 8);
    t.q_lora_rank = dice.from(0, 8);
    return t;
  }
  t.kv_heads = t.heads;
  t.heads *= dice.from(1, 3);
  t.qk_norm = dice.coin();
  t.qk_norm_full = t.qk_norm && dice.coin();
  t.output_gate = dice.coin();
  t.sinks = dice.coin();
  return t;
}

inline FeedForward random_moe(Dice& dice) {
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.experts = dice.from(1, 9);
  ff.top_k = dice.from(1, ff.experts);
  ff.width = dice.from(1, 20);
  ff.matrices = dice.from(2, 3);
  ff.shared_width = dice.coin() ? dice.from(1, 20) : 0;
  ff.shared_gate = ff.shared_width > 0 && dice.coin();
  ff.bias = dice.coin();
  ff.gate_bias = dice.coin();
  return ff;
}

/// Takes one of its two parts away from each of about half the layers; attention only where there is no
/// encoder.
inline void thin_out(Dice& dice, bool encoder, std::vector<Layer>& layers) {
  for (Layer& layer : layers) {
    const int part = dice.from(0, 3);
    if (part == 0) layer.feed_forward = {.kind = FeedForward::Kind::none};
    if (part != 1 || encoder) continue;
    layer.attention = {};
    layer.attention.kind = Attention::Kind::none;
  }
}

inline Architecture random_architecture(Dice& dice) {
  Architecture a;
  a.name = "random-" + std::to_string(dice.from(0, 99));
  a.title = dice.coin() ? "A: \"title\" # not a comment\\" : a.name;
  a.source = dice.coin() ? "two\nlines, {braces} & [brackets], \xC3\xA9" : "";
  a.hidden = dice.from(1, 40);
  a.vocab = dice.from(1, 100);
  a.embedding_copies = dice.from(1, 4);
  if (dice.coin()) a.stored = StoredWeights::plain(dice.from(1, 40) / 10.0);
  if (dice.from(0, 3) == 0) {
    a.stored.name = "parts: {of} several \"kinds\"";
    for (double& bytes : a.stored.bytes) bytes = dice.from(1, 40) / 8.0;
  }
  a.extra_weights = dice.coin() ? dice.from(0, 1000) : 0;
  if (dice.coin()) a.published_weights = dice.from(1, 1000000) * 1234567.0;
  if (dice.coin()) a.published_active_weights = dice.from(1, 1000000) / 7.0 + 1;
  if (dice.coin()) a.published_source = "a card";
  const bool encoder = dice.from(0, 3) == 0;
  const FeedForward moe = random_moe(dice);
  FeedForward dense;
  dense.width = dice.from(1, 20);
  dense.matrices = dice.from(2, 3);
  dense.bias = dice.coin();
  for (const Stack stack : {Stack::encoder, Stack::decoder}) {
    if (stack == Stack::encoder && !encoder) continue;
    const int layers = dice.from(1, 12);
    std::vector<Attention> pattern;
    for (int i = dice.from(1, 3); i > 0; --i) pattern.push_back(random_attention(dice, encoder));
    const int style = dice.from(0, 2);  // all, regular, arbitrary
    const int every = dice.from(1, 3);
    for (int i = 0; i < layers; ++i) {
      const bool sparse = style == 0 || (style == 1 ? i % every == every - 1 : dice.coin());
      const std::size_t block = static_cast<std::size_t>(style == 2 ? dice.from(0, 2) : i) % pattern.size();
      a.layers.push_back({stack, pattern[block], encoder && stack == Stack::decoder, sparse ? moe : dense});
    }
  }
  if (dice.from(0, 2) == 0) thin_out(dice, encoder, a.layers);
  if (!a.is_moe()) a.layers.back().feed_forward = moe;
  return a;
}

}  // namespace moelab::test
