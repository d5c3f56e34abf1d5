#include "models/hf_layers.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace moelab::hf {
namespace {

int head_dim(const HfConfig& config, int hidden, int heads) {
  if (const std::optional<int> dim =
          config.integer({"head_dim", "d_kv", "attention_head_dim"}, 1, kMostHeadDim))
    return *dim;
  if (hidden % heads != 0) {
    config.fail("without a key 'head_dim', the number of heads (" + std::to_string(heads) +
                ") must divide the hidden size (" + std::to_string(hidden) + ")");
  }
  return std::clamp(hidden / heads, 1, kMostHeadDim);
}

}  // namespace

Attention full_attention(const HfConfig& config, const Family& family, int hidden) {
  Attention t;
  t.heads = config.required({"num_attention_heads", "num_heads", "n_head"}, 1, kMostHeads);
  const bool four_biases = config.boolean({"attention_bias"}, family.attention_bias);
  t.bias = config.boolean({"qkv_bias"}, family.qkv_bias) || four_biases;
  t.output_bias = four_biases && !family.no_output_bias;
  if (config.has({"kv_lora_rank"})) {
    t.kind = Attention::Kind::mla;
    t.kv_lora_rank = config.required({"kv_lora_rank"}, 1, kMostWidth);
    t.q_lora_rank = config.integer_or({"q_lora_rank"}, 0, kMostWidth, 0);
    t.rope_dim = config.required({"qk_rope_head_dim"}, 0, kMostHeadDim);
    t.head_dim = config.required({"qk_nope_head_dim"}, 1, kMostHeadDim) + t.rope_dim;
    t.value_dim = config.required({"v_head_dim"}, 1, kMostHeadDim);
    return t;
  }
  t.kv_heads = config.integer_or(kKvHeadKeys, 1, kMostHeads, family.kv_heads > 0 ? family.kv_heads : t.heads);
  t.head_dim = head_dim(config, hidden, t.heads);
  t.value_dim = t.head_dim;
  t.qk_norm = config.boolean({"use_qk_norm"}, family.qk_norm) && !family.qk_norm_bare;
  t.qk_norm_full = t.qk_norm && family.qk_norm_full;
  t.output_gate = config.boolean({"attn_output_gate"}, family.output_gate);
  t.sinks = family.sinks;
  return t;
}

namespace {

Attention linear_attention(const HfConfig& config) {
  Attention t;
  t.kind = Attention::Kind::linear;
  t.linear_key_heads = config.required({"linear_num_key_heads"}, 1, kMostHeads);
  t.linear_value_heads = config.required({"linear_num_value_heads"}, 1, kMostHeads);
  t.head_dim = config.required({"linear_key_head_dim"}, 1, kMostHeadDim);
  t.value_dim = config.required({"linear_value_head_dim"}, 1, kMostHeadDim);
  t.conv_kernel = config.required({"linear_conv_kernel_dim"}, 1, 1024);
  return t;
}

// Llama 4: layers whose positions are rotated attend to chunks. An empty list says every fourth has none.
std::vector<std::string> chunked_types(const HfConfig& config, int layers) {
  std::vector<std::string> types(static_cast<std::size_t>(layers), "full_attention");
  const std::vector<int> rotated = config.integers({"no_rope_layers"}, 0, 1).value_or(std::vector<int>{});
  if (!rotated.empty() && rotated.size() != types.size()) {
    config.fail("'no_rope_layers' has " + std::to_string(rotated.size()) + " items for " +
                std::to_string(layers) + " layers");
    return types;
  }
  const int interval = config.integer_or({"no_rope_layer_interval"}, 1, kMostLayers, 4);
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool chunks = rotated.empty() ? (static_cast<int>(i) + 1) % interval != 0 : rotated[i] == 1;
    if (chunks) types[i] = "chunked_attention";
  }
  return types;
}

// The kind of attention of each layer in the words of "layer_types", given or implied.
std::vector<std::string> layer_types(const HfConfig& config, const Family& family, int layers) {
  if (std::optional<std::vector<std::string>> given = config.texts({"layer_types"})) {
    if (given->size() == static_cast<std::size_t>(layers)) return *std::move(given);
    config.fail("'layer_types' has " + std::to_string(given->size()) + " items for " +
                std::to_string(layers) + " layers");
  }
  if (family.chunks) return chunked_types(config, layers);
  std::vector<std::string> types(static_cast<std::size_t>(layers), "full_attention");
  const bool windows = config.boolean({"use_sliding_window"}, true);
  const int first_window = config.integer_or({"max_window_layers"}, 0, kMostLayers, 0);
  const bool hybrid = config.has({"linear_num_value_heads"});
  const int interval = config.integer_or({"full_attention_interval"}, 1, kMostLayers, 4);
  for (int i = 0; i < layers; ++i) {
    std::string& type = types[static_cast<std::size_t>(i)];
    if (hybrid && (i + 1) % interval != 0) type = "linear_attention";
    if (hybrid || !windows) continue;
    const bool alternates = family.model_type == "gpt_oss";
    if (alternates ? i % 2 == 0 : i >= first_window) type = "sliding_attention";
  }
  return types;
}

}  // namespace

std::vector<Attention> attentions(const HfConfig& config, const Family& family, int hidden, int layers) {
  const Attention full = full_attention(config, family, hidden);
  const int window = config.integer_or({"sliding_window"}, 0, kMostTokens, 0);
  const int positions = config.integer_or({"max_position_embeddings"}, 1, kMostTokens, kMostTokens);
  Attention sliding = full;
  if (window < positions) sliding.window = window;  // a wider one never cuts
  Attention chunked = full;
  if (family.chunks) chunked.window = config.required({"attention_chunk_size"}, 1, kMostTokens);
  const Attention linear = config.has({"linear_num_value_heads"}) ? linear_attention(config) : Attention{};
  std::vector<Attention> result;
  for (const std::string& type : layer_types(config, family, layers)) {
    if (type == "full_attention") {
      result.push_back(full);
    } else if (type == "sliding_attention") {
      result.push_back(sliding);
    } else if (type == "chunked_attention" && family.chunks) {
      result.push_back(chunked);
    } else if (type == "linear_attention" && linear.kind == Attention::Kind::linear) {
      result.push_back(linear);
    } else {
      config.fail("'layer_types' has '" + type.substr(0, 60) +
                  "'; known: full_attention, sliding_attention, linear_attention (with the keys linear_*)");
      break;
    }
  }
  result.resize(static_cast<std::size_t>(layers), full);
  return result;
}

std::vector<bool> moe_flags(const HfConfig& config, int layers) {
  std::vector<bool> moe(static_cast<std::size_t>(layers), true);
  const int first = config.integer_or(
      {"first_k_dense_replace", "moe_layer_start_index", "moe_layer_num_skipped"}, 0, kMostLayers, 0);
  const int last = config.integer_or({"moe_layer_end_index"}, -1, kMostLayers, -1);  // -1: no end
  const int step = config.integer_or(
      {"decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"}, 1, kMostLayers, 1);
  const bool listed = config.is_list({"moe_layer_freq"});
  const int every = listed ? 1 : config.integer_or({"moe_layer_freq"}, 1, kMostLayers, 1);
  for (int i = 0; i < layers; ++i) {
    const bool within = i >= first && (last < 0 || i <= last);
    moe[static_cast<std::size_t>(i)] = within && (i + 1) % step == 0 && i % every == 0;
  }
  if (const auto flags = listed ? config.integers({"moe_layer_freq"}, 0, 1) : std::nullopt) {
    if (flags->size() != moe.size()) config.fail("'moe_layer_freq' needs one item a layer");
    for (std::size_t i = 0; i < std::min(moe.size(), flags->size()); ++i) moe[i] = moe[i] && (*flags)[i] == 1;
  }
  if (const auto listed_layers = config.integers({"moe_layers"}, 0, layers - 1);
      listed_layers && !listed_layers->empty()) {
    std::fill(moe.begin(), moe.end(), false);
    for (const int i : *listed_layers) moe[static_cast<std::size_t>(i)] = true;
  }
  if (const auto dense = config.integers({"mlp_only_layers"}, 0, layers - 1)) {
    for (const int i : *dense) moe[static_cast<std::size_t>(i)] = false;
  }
  return moe;
}

}  // namespace moelab::hf
