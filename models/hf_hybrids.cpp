#include "models/hf_hybrids.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace moelab::hf {
namespace {

/// What one entry of a list of layers, in old or new words, or one letter of a pattern says.
enum class Part { mamba, attention, moe, dense, unknown };

Part part_named(const std::string& word) {
  if (word == "mamba" || word == "mamba2" || word == "linear_attention" || word == "M") return Part::mamba;
  if (word == "attention" || word == "full_attention" || word == "*") return Part::attention;
  if (word == "moe" || word == "E") return Part::moe;
  if (word == "mlp" || word == "-") return Part::dense;
  return Part::unknown;
}

/// The words of a list, or "hybrid_override_pattern" letter by letter; empty where neither is there. Both
/// that say different layers are a problem.
std::vector<std::string> words(const HfConfig& config) {
  const std::vector<std::string> listed =
      config.texts({"layers_block_type", "layer_types"}).value_or(std::vector<std::string>{});
  std::vector<std::string> lettered;
  for (const char letter : config.text({"hybrid_override_pattern"}).substr(0, kMostLayers + 1))
    lettered.emplace_back(1, letter);
  const auto same = [](const std::string& a, const std::string& b) { return part_named(a) == part_named(b); };
  if (!listed.empty() && !lettered.empty() &&
      !std::equal(listed.begin(), listed.end(), lettered.begin(), lettered.end(), same))
    config.fail("'hybrid_override_pattern' and the list of layers say different layers");
  return lettered.empty() ? listed : lettered;
}

/// One part a layer. What is no part, or no part of this family's layers, is a problem that names it, and
/// unknown.
std::vector<Part> parts_of(const HfConfig& config, int layers, std::initializer_list<Part> known,
                           const std::string& names) {
  const std::vector<std::string> said = words(config);
  std::vector<Part> parts(static_cast<std::size_t>(layers), Part::unknown);
  if (said.empty()) {
    config.fail("no key says what each layer is: expected 'hybrid_override_pattern' or 'layers_block_type'");
    return parts;
  }
  if (said.size() != parts.size()) {
    config.fail("the kinds of layers are " + std::to_string(said.size()) + " for " + std::to_string(layers) +
                " layers");
    return parts;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part part = part_named(said[i]);
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      config.fail("layer " + std::to_string(i) + " is '" + shown_word(said[i]) +
                  "', which is not covered; known: " + names);
      break;
    }
    parts[i] = part;
  }
  return parts;
}

Attention mamba2(const HfConfig& config) {
  Attention t;
  t.kind = Attention::Kind::mamba2;
  t.linear_value_heads = config.required({"mamba_n_heads", "mamba_num_heads"}, 1, kMostHeads);
  t.value_dim = config.required({"mamba_d_head", "mamba_head_dim"}, 1, kMostHeadDim);
  t.linear_key_heads = config.required({"mamba_n_groups", "n_groups"}, 1, kMostHeads);
  t.head_dim = config.required({"mamba_d_state", "ssm_state_size"}, 1, kMostHeadDim);
  t.conv_kernel = config.required({"mamba_d_conv", "conv_kernel"}, 1, 1024);
  t.conv_bias = config.boolean({"mamba_conv_bias", "use_conv_bias"}, true);
  t.bias = t.output_bias = config.boolean({"mamba_proj_bias"}, false) || config.boolean({"use_bias"}, false);
  return t;
}

FeedForward granite_feed_forward(const HfConfig& config) {
  FeedForward ff;
  const int shared = config.required({"shared_intermediate_size"}, 0, kMostWidth);
  ff.experts = config.required({"num_local_experts"}, 0, kMostExperts);
  if (ff.experts == 0) {
    ff.width = shared;
    if (shared == 0) config.fail("'shared_intermediate_size' is 0, and there are no experts");
    return ff;
  }
  ff.kind = FeedForward::Kind::moe;
  ff.top_k = config.required({"num_experts_per_tok"}, 1, kMostExperts);
  ff.width = config.required({"intermediate_size"}, 1, kMostWidth);
  ff.shared_width = shared;
  return ff;
}

FeedForward nemotron_moe(const HfConfig& config) {
  if (config.has({"moe_latent_size"}))
    config.fail("'moe_latent_size': experts that work in a latent space are not covered");
  FeedForward ff;
  ff.kind = FeedForward::Kind::moe;
  ff.matrices = 2;  // squared ReLU, without a gate
  ff.experts = config.required({"n_routed_experts"}, 1, kMostExperts);
  ff.top_k = config.required({"num_experts_per_tok"}, 1, kMostExperts);
  ff.width = config.required({"moe_intermediate_size"}, 1, kMostWidth);
  const std::int64_t shared_experts = config.integer_or({"n_shared_experts"}, 0, kMostExperts, 1);
  const std::int64_t shared =
      shared_experts == 0
          ? 0
          : shared_experts * config.required({"moe_shared_expert_intermediate_size"}, 0, kMostWidth);
  if (shared > kMostWidth) config.fail("the shared experts are wider than " + std::to_string(kMostWidth));
  ff.shared_width = static_cast<int>(std::min<std::int64_t>(shared, kMostWidth));
  ff.gate_bias = true;  // e_score_correction_bias
  ff.bias = config.boolean({"mlp_bias"}, false);
  return ff;
}

FeedForward nemotron_dense(const HfConfig& config) {
  FeedForward ff;
  ff.matrices = 2;
  ff.width = config.required({"intermediate_size"}, 1, kMostWidth);
  ff.bias = config.boolean({"mlp_bias"}, false);
  return ff;
}

bool any(const std::vector<Part>& parts, Part part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

}  // namespace

void read_granite_hybrid(const HfConfig& config, const Family& family, Architecture& a) {
  const int layers = config.required({"num_hidden_layers"}, 1, kMostLayers);
  a.embedding_copies = config.boolean({"tie_word_embeddings"}, false) ? 1 : 2;
  const std::vector<Part> parts =
      config.has({"layer_types", "layers_block_type", "hybrid_override_pattern"})
          ? parts_of(config, layers, {Part::mamba, Part::attention}, "mamba, attention")
          : std::vector<Part>(static_cast<std::size_t>(layers), Part::mamba);
  const Attention full = full_attention(config, family, a.hidden);
  const Attention mamba = any(parts, Part::mamba) ? mamba2(config) : Attention{};
  const std::int64_t inner = std::int64_t{mamba.linear_value_heads} * mamba.value_dim;
  const int expand = config.integer_or({"mamba_expand"}, 1, 1024, 2);
  if (inner > 0 && inner != std::int64_t{expand} * a.hidden)
    config.fail("'mamba_n_heads' times 'mamba_d_head' has to be 'mamba_expand' times the hidden size");
  const FeedForward ff = granite_feed_forward(config);
  for (const Part part : parts)
    a.layers.push_back({Stack::decoder, part == Part::mamba ? mamba : full, false, ff});
}

void read_nemotron_h(const HfConfig& config, const Family& family, Architecture& a) {
  const auto said = static_cast<int>(words(config).size());
  const int layers =
      config.integer_or({"num_hidden_layers"}, 1, kMostLayers, std::clamp(said, 1, kMostLayers));
  a.embedding_copies = config.boolean({"tie_word_embeddings"}, false) ? 1 : 2;
  const std::vector<Part> parts =
      parts_of(config, layers, {Part::mamba, Part::attention, Part::moe, Part::dense},
               "M (mamba), * (attention), E (moe), - (mlp)");
  Attention none;
  none.kind = Attention::Kind::none;
  const FeedForward no_feed_forward{.kind = FeedForward::Kind::none};
  const Attention full = any(parts, Part::attention) ? full_attention(config, family, a.hidden) : none;
  const Attention mamba = any(parts, Part::mamba) ? mamba2(config) : none;
  const FeedForward moe = any(parts, Part::moe) ? nemotron_moe(config) : no_feed_forward;
  const FeedForward dense = any(parts, Part::dense) ? nemotron_dense(config) : no_feed_forward;
  for (const Part part : parts) {
    Layer layer;
    layer.attention = part == Part::mamba ? mamba : part == Part::attention ? full : none;
    layer.feed_forward = part == Part::moe ? moe : part == Part::dense ? dense : no_feed_forward;
    a.layers.push_back(layer);
  }
}

}  // namespace moelab::hf
