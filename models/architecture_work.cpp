// What a pass computes and reads. The kernel counts below are those of a serving engine with the usual
// fusions (one projection for queries, keys and values; residual addition inside the norm; one attention
// kernel): about right within a few launches a layer, and stated so that a system's own overhead can be set
// against them.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "models/architecture.hpp"

namespace moelab {
namespace {

// Norm; projections; position embedding; cache write; attention; output projection; norm with the residual.
constexpr int kKvHeadsKernels = 7;
constexpr int kQkNormKernels = 1;
constexpr int kOutputGateKernels = 1;
// Norm; queries; latent; latent norm; position embedding; cache write; key absorption; attention; value
// absorption; output projection; norm with the residual. Factored queries add a projection and a norm.
constexpr int kMlaKernels = 11;
constexpr int kFactoredQueryKernels = 2;
// Norm; two projections; convolution; decay and beta; delta rule; gated norm; output projection; norm with
// the residual.
constexpr int kLinearKernels = 9;
// Norm; projection; convolution; step and state update; gated norm; output projection; norm with the
// residual.
constexpr int kMamba2Kernels = 7;
// Norm with the residual: the feed-forward part's is the only one, or there is none.
constexpr int kOneNormKernels = 1;
// Norm; queries; attention; output projection.
constexpr int kCrossKernels = 4;
// Router projection; softmax with top-k; sorting tokens by expert.
constexpr int kGateKernels = 3;
// Gate with up, or up alone; activation; down.
constexpr int kFeedForwardKernels = 3;
// Adding the shared experts' output to the routed one; scaling it by its gate before.
constexpr int kSharedAddKernels = 1;
constexpr int kSharedGateKernels = 2;
// Norm; output embedding; choice of the token.
constexpr int kHeadKernels = 3;

Bytes as_stored(const Architecture& a, WeightPart part, double weights) {
  return Bytes(weights * a.stored.of(part));
}

// FLOPs of scores, weighted values or state update for one query token.
double mixing_flops(const Attention& t, double context) {
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return 2.0 * t.heads * (t.head_dim + t.value_dim) * context;
    case Attention::Kind::mla:
      return 2.0 * t.heads * (2.0 * t.kv_lora_rank + t.rope_dim) * context;
    case Attention::Kind::linear:
      return 7.0 * t.linear_value_heads * t.head_dim * t.value_dim;
    case Attention::Kind::mamba2:
      return 5.0 * t.linear_value_heads * t.head_dim * t.value_dim;
    case Attention::Kind::none:
      return 0;
  }
  assert(false);
  return 0;
}

// Cached values that one read of keys and values (or of the state) takes.
double cached_values(const Attention& t, double context) {
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return 1.0 * t.kv_heads * (t.head_dim + t.value_dim) * context;
    case Attention::Kind::mla:
      return (1.0 * t.kv_lora_rank + t.rope_dim) * context;
    case Attention::Kind::linear:
    case Attention::Kind::mamba2:
      return 1.0 * t.linear_value_heads * t.head_dim * t.value_dim;
    case Attention::Kind::none:
      return 0;
  }
  assert(false);
  return 0;
}

int attention_kernels(const Layer& layer) {
  const Attention& t = layer.attention;
  int kernels = layer.cross_attention ? kCrossKernels : 0;
  if (layer.feed_forward.kind == FeedForward::Kind::moe) kernels += kGateKernels;
  if (layer.has_mixer() && !layer.has_feed_forward()) kernels -= kOneNormKernels;
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return kernels + kKvHeadsKernels + (t.qk_norm || t.qk_norm_full ? kQkNormKernels : 0) +
             (t.output_gate ? kOutputGateKernels : 0);
    case Attention::Kind::mla:
      return kernels + kMlaKernels + (t.q_lora_rank > 0 ? kFactoredQueryKernels : 0);
    case Attention::Kind::linear:
      return kernels + kLinearKernels;
    case Attention::Kind::mamba2:
      return kernels + kMamba2Kernels;
    case Attention::Kind::none:
      return kernels + kOneNormKernels;
  }
  assert(false);
  return kernels;
}

// Of queries, keys and values, or of the one projection that makes them; of the output; of the convolution.
int attention_biases(const Attention& t) {
  const int projections = t.kind == Attention::Kind::mamba2 ? 1 : 3;
  return (t.bias ? projections : 0) + (t.output_bias ? 1 : 0) + (t.conv_bias ? 1 : 0);
}

// The key and value projections of a cross-attention, which see the encoder's tokens and not the decoder's.
double cross_cache_weights(const Architecture& a, const Layer& layer) {
  if (!layer.cross_attention) return 0;
  const Attention& t = layer.attention;
  assert(t.kind == Attention::Kind::kv_heads);
  const double outputs = 1.0 * t.kv_heads * (t.head_dim + t.value_dim);
  return (a.hidden + (t.bias ? 1.0 : 0.0)) * outputs;
}

Work projection_work(const Architecture& a, WeightPart part, double weights, double tokens, int kernels) {
  return {Flops(2 * weights * tokens), as_stored(a, part, weights), Bytes(0), kernels, Flops(0), Flops(0), 0};
}

}  // namespace

Work attention_work(const Architecture& a, const Layer& layer, double tokens, double context,
                    double queries_per_read, double encoded) {
  assert(tokens >= 0 && context >= 0 && queries_per_read >= 1 && encoded >= 0);
  if (tokens == 0) return {};
  const Attention& t = layer.attention;
  assert(t.window == 0 || context <= t.window);
  const double gate = gate_weights(a, layer);
  const double weights = attention_weights(a, layer) - cross_cache_weights(a, layer);
  Work work = projection_work(a, WeightPart::attention, weights, tokens, attention_kernels(layer));
  work.flops += Flops(2 * gate * tokens);
  work.weight_bytes += as_stored(a, WeightPart::router, gate);
  const double reads = tokens / queries_per_read;
  const Flops mixed(mixing_flops(t, context) * tokens);
  work.flops += mixed;
  (t.recurrent() ? work.recurrence : work.mixing) = mixed;
  work.biases = attention_biases(t) + (layer.feed_forward.gate_bias ? 1 : 0);
  work.kv_bytes += Bytes(cached_values(t, context) * a.stored.kv * reads);
  if (layer.cross_attention) {
    const Flops encoder(mixing_flops(t, encoded) * tokens);
    work.flops += encoder;
    work.mixing += encoder;
    work.kv_bytes += Bytes(cached_values(t, encoded) * a.stored.kv * reads);
  }
  return work;
}

double attended_tokens(double first, double rows, int window) {
  // The rows that see all there is come first.
  const double below = window > 0 ? std::clamp(std::floor(window - first) + 1, 0.0, rows) : rows;
  return below * first + below * (below - 1) / 2 + (rows - below) * window;
}

Work cross_cache_work(const Architecture& a, const Layer& layer, double encoder_tokens) {
  assert(encoder_tokens >= 0);
  if (encoder_tokens == 0 || !layer.cross_attention) return {};
  return projection_work(a, WeightPart::attention, cross_cache_weights(a, layer), encoder_tokens, 1);
}

Work dense_work(const Architecture& a, const Layer& layer, double tokens) {
  assert(tokens >= 0);
  const double weights = feed_forward_dense_weights(a, layer);
  if (tokens == 0 || weights == 0) return {};
  const bool shared = layer.feed_forward.kind == FeedForward::Kind::moe;
  const int kernels = kFeedForwardKernels + (shared ? kSharedAddKernels : 0) +
                      (layer.feed_forward.shared_gate ? kSharedGateKernels : 0);
  Work work = projection_work(a, dense_part(layer), weights, tokens, kernels);
  if (!shared && layer.feed_forward.bias) work.biases = layer.feed_forward.matrices;
  return work;
}

Work head_work(const Architecture& a, double tokens) {
  assert(tokens >= 0);
  if (tokens == 0) return {};
  return projection_work(a, WeightPart::head, embedding_weights(a) + a.hidden, tokens, kHeadKernels);
}

Work expert_work(const Architecture& a, const FeedForward& ff, double tokens) {
  assert(tokens >= 0);
  if (tokens == 0) return {};
  Work work = projection_work(a, WeightPart::experts, expert_weights(a, ff), tokens, kFeedForwardKernels);
  if (ff.bias) work.biases = ff.matrices;
  return work;
}

}  // namespace moelab
