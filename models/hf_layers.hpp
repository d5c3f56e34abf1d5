// Which attention and which feed-forward kind each layer of a config.json has. Only hf_*.cpp use it.
#pragma once

#include <initializer_list>
#include <limits>
#include <string_view>
#include <vector>

#include "models/architecture.hpp"
#include "models/hf_config.hpp"

namespace moelab::hf {

inline constexpr int kMostLayers = 10000;
inline constexpr int kMostHeads = 65536;
inline constexpr int kMostHeadDim = 65536;
inline constexpr int kMostWidth = 10'000'000;
inline constexpr int kMostExperts = 65536;
inline constexpr int kMostTokens = std::numeric_limits<int>::max();

// What a family's code does and its config.json does not say, or says by a key whose absence means yes.
struct Family {
  std::string_view model_type;
  bool attention_bias = false;  // of all four projections, where no key says otherwise
  bool qkv_bias = false;        // of three
  bool no_output_bias = false;  // the key attention_bias speaks of three
  bool qk_norm = false;
  bool qk_norm_full = false;
  bool qk_norm_bare = false;  // their norms have no weights
  bool output_gate = false;
  bool sinks = false;
  bool shared_gate = false;
  bool one_shared = false;  // a shared expert as wide as the others, which no key states
  bool matrix_bias = false;
  bool gate_bias = false;
  bool layer_norm_bias = false;
  bool chunks = false;  // three of four layers attend to chunks
  bool hybrid = false;  // some layers are Mamba-2 (hf_hybrids.hpp)
  int kv_heads = 0;     // transformers' default of num_key_value_heads; 0: as many as attention heads
};

/// The names that the number of key-value heads goes by.
inline const std::initializer_list<std::string_view> kKvHeadKeys{"num_key_value_heads", "num_kv_heads"};

/// The attention of a layer that sees everything: key-value heads, or MLA where the keys of MLA are there.
Attention full_attention(const HfConfig& config, const Family& family, int hidden);

/// The attention of each layer: "layer_types" where given, else what the family and its keys imply.
std::vector<Attention> attentions(const HfConfig& config, const Family& family, int hidden, int layers);

/// True for each layer with experts.
std::vector<bool> moe_flags(const HfConfig& config, int layers);

}  // namespace moelab::hf
