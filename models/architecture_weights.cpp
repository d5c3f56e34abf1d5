// Counting weights: every formula is the sum of the tensors a checkpoint of that layer holds.
#include <algorithm>
#include <cassert>

#include "models/architecture.hpp"

namespace moelab {
namespace {

double kv_heads_weights(double hidden, const Attention& t) {
  const double queries = 1.0 * t.heads * t.head_dim;
  const double keys = 1.0 * t.kv_heads * t.head_dim;
  const double values = 1.0 * t.kv_heads * t.value_dim;
  const double query_outputs = t.output_gate ? 2 * queries : queries;
  double weights = hidden * (query_outputs + keys + values) + 1.0 * t.heads * t.value_dim * hidden;
  if (t.bias) weights += query_outputs + keys + values;
  if (t.output_bias) weights += hidden;
  if (t.qk_norm_full) {
    weights += queries + keys;
  } else if (t.qk_norm) {
    weights += 2.0 * t.head_dim;
  }
  if (t.sinks) weights += t.heads;
  return weights;
}

double mla_weights(double hidden, const Attention& t) {
  const double queries = 1.0 * t.heads * t.head_dim;
  const double nope = t.head_dim - t.rope_dim;
  const double latent = t.kv_lora_rank;
  double weights = hidden * (latent + t.rope_dim) + latent;              // down-projection and its norm
  weights += latent * t.heads * (nope + t.value_dim);                    // keys and values from the latent
  weights += 1.0 * t.heads * t.value_dim * hidden;                       // output
  weights += t.q_lora_rank > 0 ? (hidden + 1 + queries) * t.q_lora_rank  // down, norm, up
                               : hidden * queries;
  if (t.bias) weights += latent + t.rope_dim + t.q_lora_rank;
  if (t.output_bias) weights += hidden;
  return weights;
}

// Gated DeltaNet as Qwen3-Next has it: one projection to queries, keys, values and output gate, one to the
// two scalars (beta, decay) of each value head, a short depth-wise convolution over queries, keys and values,
// a decay rate and a bias a head, a norm over a head's output.
double linear_weights(double hidden, const Attention& t) {
  const double keys = 1.0 * t.linear_key_heads * t.head_dim;
  const double values = 1.0 * t.linear_value_heads * t.value_dim;
  return hidden * (2 * keys + 2 * values) + hidden * 2 * t.linear_value_heads +
         (2 * keys + values) * t.conv_kernel + 2.0 * t.linear_value_heads + t.value_dim + values * hidden;
}

// Mamba-2 (arXiv 2405.21060, figure 6; its authors' mamba2.py): one projection to z, x, B, C and the step of
// each head, a short depth-wise convolution over x, B and C, of each head a decay rate (A), a weight of what
// passes it by (D) and a bias of its step, a gated norm over all heads' outputs, the output projection.
double mamba2_weights(double hidden, const Attention& t) {
  const double heads = t.linear_value_heads;
  const double values = heads * t.value_dim;
  const double convolved = 2.0 * t.linear_key_heads * t.head_dim + values;
  const double projected = values + convolved + heads;
  double weights = hidden * projected + convolved * t.conv_kernel + 3 * heads + values + values * hidden;
  if (t.conv_bias) weights += convolved;
  if (t.bias) weights += projected;
  if (t.output_bias) weights += hidden;
  return weights;
}

double attention_block_weights(double hidden, const Attention& t) {
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return kv_heads_weights(hidden, t);
    case Attention::Kind::mla:
      return mla_weights(hidden, t);
    case Attention::Kind::linear:
      return linear_weights(hidden, t);
    case Attention::Kind::mamba2:
      return mamba2_weights(hidden, t);
    case Attention::Kind::none:
      return 0;
  }
  assert(false);
  return 0;
}

double matrices_weights(double hidden, double width, const FeedForward& ff) {
  const double biases = ff.bias ? (ff.matrices - 1) * width + hidden : 0;
  return ff.matrices * hidden * width + biases;
}

double layer_non_routed_weights(const Architecture& a, const Layer& layer) {
  return attention_weights(a, layer) + feed_forward_dense_weights(a, layer) + gate_weights(a, layer);
}

// Embeddings, one final norm for each stack, and what the formulas leave out.
double model_wide_weights(const Architecture& a) {
  const double final_norms = (a.has_encoder() ? 2.0 : 1.0) * a.hidden;
  return a.embedding_copies * embedding_weights(a) + final_norms + a.extra_weights;
}

}  // namespace

double attention_weights(const Architecture& a, const Layer& layer) {
  const double hidden = a.hidden;
  const double blocks = (layer.has_mixer() ? 1 : 0) + (layer.cross_attention ? 1 : 0);
  const double norms = blocks + (layer.has_feed_forward() ? 1 : 0);  // one before each part
  return blocks * attention_block_weights(hidden, layer.attention) + norms * hidden;
}

double feed_forward_dense_weights(const Architecture& a, const Layer& layer) {
  const FeedForward& ff = layer.feed_forward;
  if (ff.kind == FeedForward::Kind::dense) return matrices_weights(a.hidden, ff.width, ff);
  if (ff.shared_width == 0) return 0;
  return matrices_weights(a.hidden, ff.shared_width, ff) + (ff.shared_gate ? a.hidden : 0);
}

double gate_weights(const Architecture& a, const Layer& layer) {
  const FeedForward& ff = layer.feed_forward;
  if (ff.kind != FeedForward::Kind::moe) return 0;
  return 1.0 * ff.experts * a.hidden + (ff.gate_bias ? ff.experts : 0);
}

WeightPart dense_part(const Layer& layer) {
  return layer.feed_forward.kind == FeedForward::Kind::moe ? WeightPart::shared : WeightPart::dense;
}

double expert_tensor_weights(const Architecture& a, const FeedForward& ff) {
  return 1.0 * a.hidden * ff.width;
}

double expert_weights(const Architecture& a, const FeedForward& ff) {
  return matrices_weights(a.hidden, ff.width, ff);
}

double embedding_weights(const Architecture& a) {
  return 1.0 * a.vocab * a.hidden;
}

double total_weights(const Architecture& a) {
  double weights = model_wide_weights(a) + routed_weights(a);
  for (const Layer& layer : a.layers) weights += layer_non_routed_weights(a, layer);
  return weights;
}

double active_weights(const Architecture& a) {
  double weights = model_wide_weights(a);
  for (const Layer& layer : a.layers) {
    weights += layer_non_routed_weights(a, layer);
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind == FeedForward::Kind::moe) weights += ff.top_k * expert_weights(a, ff);
  }
  return weights;
}

double routed_weights(const Architecture& a) {
  double weights = 0;
  for (const Layer& layer : a.layers) {
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind == FeedForward::Kind::moe) weights += ff.experts * expert_weights(a, ff);
  }
  return weights;
}

Bytes expert_tensor_bytes(const Architecture& a) {
  return Bytes(expert_tensor_weights(a, a.moe()) * a.stored.of(WeightPart::experts));
}

Bytes expert_bytes(const Architecture& a) {
  return Bytes(expert_weights(a, a.moe()) * a.stored.of(WeightPart::experts));
}

Bytes expert_bytes_or_none(const Architecture& a) {
  return a.is_moe() ? expert_bytes(a) : Bytes(0);
}

Bytes layer_non_routed_bytes(const Architecture& a, const Layer& layer) {
  return Bytes(attention_weights(a, layer) * a.stored.of(WeightPart::attention) +
               feed_forward_dense_weights(a, layer) * a.stored.of(dense_part(layer)) +
               gate_weights(a, layer) * a.stored.of(WeightPart::router));
}

Bytes layer_bytes(const Architecture& a, const Layer& layer) {
  const FeedForward& ff = layer.feed_forward;
  const double routed = ff.kind == FeedForward::Kind::moe ? ff.experts * expert_weights(a, ff) : 0;
  return layer_non_routed_bytes(a, layer) + Bytes(routed * a.stored.of(WeightPart::experts));
}

Bytes non_expert_bytes(const Architecture& a) {
  const StoredWeights& stored = a.stored;
  const double final_norms_and_extra = model_wide_weights(a) - a.embedding_copies * embedding_weights(a);
  double bytes = embedding_weights(a) * (stored.of(WeightPart::head) +
                                         (a.embedding_copies - 1) * stored.of(WeightPart::embedding)) +
                 final_norms_and_extra * stored.of(WeightPart::attention);
  for (const Layer& layer : a.layers) bytes += layer_non_routed_bytes(a, layer).value();
  return Bytes(bytes);
}

Bytes routed_bytes(const Architecture& a) {
  return Bytes(routed_weights(a) * a.stored.of(WeightPart::experts));
}

Bytes total_bytes(const Architecture& a) {
  return non_expert_bytes(a) + routed_bytes(a);
}

Bytes active_bytes(const Architecture& a) {
  double routed = 0;
  for (const Layer& layer : a.layers) {
    const FeedForward& ff = layer.feed_forward;
    if (ff.kind == FeedForward::Kind::moe) routed += ff.top_k * expert_weights(a, ff);
  }
  const double inputs = (a.embedding_copies - 1) * embedding_weights(a) * a.stored.of(WeightPart::embedding);
  return non_expert_bytes(a) - Bytes(inputs) + Bytes(routed * a.stored.of(WeightPart::experts));
}

double kv_values_per_token(const Attention& t) {
  switch (t.kind) {
    case Attention::Kind::kv_heads:
      return 1.0 * t.kv_heads * (t.head_dim + t.value_dim);
    case Attention::Kind::mla:
      return 1.0 * t.kv_lora_rank + t.rope_dim;
    case Attention::Kind::linear:
    case Attention::Kind::mamba2:
    case Attention::Kind::none:
      return 0;
  }
  assert(false);
  return 0;
}

double state_values(const Attention& t) {
  if (!t.recurrent()) return 0;
  const double outputs = 1.0 * t.linear_value_heads * t.value_dim;
  const double inputs = 2.0 * t.linear_key_heads * t.head_dim + outputs;
  return outputs * t.head_dim + inputs * (t.conv_kernel - 1);
}

constexpr double kBytesOfState = 2;  // of a value

double kept_bytes(const Architecture& a, const Attention& t, double tokens, double requests) {
  const double kept = t.window > 0 ? std::min(tokens, t.window * requests) : tokens;
  return kv_values_per_token(t) * kept * a.stored.kv + state_values(t) * requests * kBytesOfState;
}

Bytes kv_bytes_per_token(const Architecture& a) {
  double values = 0;
  for (const Layer& layer : a.layers) {
    if (layer.stack == Stack::decoder) values += kv_values_per_token(layer.attention);
  }
  return Bytes(values * a.stored.kv);
}

Bytes cross_kv_bytes_per_token(const Architecture& a) {
  double values = 0;
  for (const Layer& layer : a.layers)
    if (layer.cross_attention) values += kv_values_per_token(layer.attention);
  return Bytes(values * a.stored.kv);
}

WindowedKv windowed_kv(const Architecture& a, int longest, std::uint32_t block_tokens) {
  double of_token = 0, of_request = 0;
  for (const Layer& layer : a.layers) {
    const Attention& attention = layer.attention;
    if (layer.stack != Stack::decoder || attention.window == 0 || attention.window > longest) continue;
    of_token += kv_values_per_token(attention);
    of_request += kv_values_per_token(attention) * (attention.window + 1.0 * block_tokens);
  }
  return {Bytes(of_token * a.stored.kv), Bytes(of_request * a.stored.kv)};
}

Bytes state_bytes_per_request(const Architecture& a) {
  double values = 0;
  for (const Layer& layer : a.layers)
    if (layer.stack == Stack::decoder) values += state_values(layer.attention);
  return Bytes(values * kBytesOfState);
}

}  // namespace moelab
