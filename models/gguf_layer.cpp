#include "models/gguf_layer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace moelab::gguf {
namespace {

/// Tensors of a layer that count as its attention. Norms do as well.
constexpr std::array<std::string_view, 30> kAttentionTensors{"attn_norm",
                                                             "attn_norm_2",
                                                             "attn_q",
                                                             "attn_k",
                                                             "attn_v",
                                                             "attn_qkv",
                                                             "attn_output",
                                                             "attn_q_norm",
                                                             "attn_k_norm",
                                                             "attn_sinks",
                                                             "attn_gate",
                                                             "attn_output_norm",
                                                             "attn_rot_embd",
                                                             "attn_q_a",
                                                             "attn_q_a_norm",
                                                             "attn_q_b",
                                                             "attn_kv_a_mqa",
                                                             "attn_kv_a_norm",
                                                             "attn_kv_b",
                                                             "attn_k_b",
                                                             "attn_v_b",
                                                             "ffn_norm",
                                                             "post_attention_norm",
                                                             "post_ffw_norm",
                                                             "layer_output_norm",
                                                             "layer_output_scale",
                                                             "ffn_sub_norm",
                                                             "attn_sub_norm",
                                                             "rope_freqs",
                                                             "post_norm"};
/// Of gated delta nets, which have all but one of the two ways to write beta and decay.
constexpr std::array<std::string_view, 9> kLinearTensors{
    "ssm_a", "ssm_conv1d", "ssm_dt", "ssm_norm", "ssm_in", "ssm_ba", "ssm_alpha", "ssm_beta", "ssm_out"};
/// Of Mamba-2 (llama.cpp, src/llama-arch.cpp); Mamba-1 has ssm_x and ssm_dt.weight besides.
constexpr std::array<std::string_view, 7> kMamba2Tensors{"ssm_in", "ssm_conv1d", "ssm_dt", "ssm_a",
                                                         "ssm_d",  "ssm_norm",   "ssm_out"};
/// Outside of layers, beside embedding and head.
constexpr std::array<std::string_view, 8> kLooseTensors{
    "output_norm.weight", "output_norm.bias",     "token_embd_norm.weight",   "token_embd_norm.bias",
    "rope_freqs.weight",  "position_embd.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view without_ending(std::string_view name) {
  for (const std::string_view ending : {".weight", ".bias"})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

/// "ffn_gate.3" is "ffn_gate_exps" of the third expert, as files were written until 2024.
bool is_one_expert(std::string_view stem) {
  const std::size_t dot = stem.find('.');
  if (dot == std::string_view::npos || dot + 1 == stem.size()) return false;
  const std::string_view matrix = stem.substr(0, dot);
  return (matrix == "ffn_gate" || matrix == "ffn_up" || matrix == "ffn_down") &&
         stem.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
}

}  // namespace

bool LayerTensors::has_any(std::string_view beginning) const {
  const auto at = tensors.lower_bound(beginning);
  return at != tensors.end() && std::string_view(at->first).starts_with(beginning);
}

bool LayerTensors::has_attention() const {
  return has_any("attn_q") || has_any("attn_k") || has_any("attn_v") || has_any("attn_output.");
}

bool LayerTensors::is_mamba2() const {
  return has_weight("ssm_in") && has_weight("ssm_conv1d") && has("ssm_dt.bias") && has("ssm_a") &&
         has("ssm_d") && has_weight("ssm_norm") && has_weight("ssm_out") && !has_weight("ssm_dt") &&
         !has_weight("ssm_x");
}

const TensorInfo* LayerTensors::weight(std::string_view stem) const {
  const auto found = tensors.find(std::string(stem) + ".weight");
  return found == tensors.end() ? nullptr : found->second;
}

std::optional<WeightPart> LayerTensors::part_of(std::string_view name) const {
  const std::string_view stem = without_ending(name);
  if (is_one_expert(stem)) return WeightPart::experts;
  for (const std::string_view matrix : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps"})
    if (stem == matrix) return WeightPart::experts;
  if (stem == "ffn_gate_inp" || stem == "exp_probs_b") return WeightPart::router;
  if (stem == "ffn_gate_inp_shexp" || stem == "ffn_gate_shexp" || stem == "ffn_up_shexp" ||
      stem == "ffn_down_shexp")
    return WeightPart::shared;
  const bool moe = has_weight("ffn_gate_inp");
  if (!moe && (stem == "ffn_gate" || stem == "ffn_up" || stem == "ffn_down")) return WeightPart::dense;
  if (is_among(kAttentionTensors, stem)) return WeightPart::attention;
  if (is_mamba2() && is_among(kMamba2Tensors, stem)) return WeightPart::attention;
  // A gated delta net has decay and beta; Mamba has neither, and Kimi's linear attention more.
  const bool delta = has_weight("ssm_ba") || (has_weight("ssm_beta") && has_weight("ssm_alpha"));
  if (delta && is_among(kLinearTensors, stem)) return WeightPart::attention;
  return std::nullopt;
}

std::optional<std::pair<int, std::string>> in_layer(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (error != std::errc() || layer < 0 || digits >= name.size() || name[digits] != '.') return std::nullopt;
  return std::pair(layer, std::string(name.substr(digits + 1)));
}

bool is_loose(std::string_view name) {
  return is_among(kLooseTensors, name);
}

}  // namespace moelab::gguf
