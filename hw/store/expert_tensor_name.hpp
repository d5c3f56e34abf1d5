// Which names in a checkpoint are those of routed experts' weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moelab {

/// A name taken apart. One expert's tensor:
///   PREFIX.layers.N.mlp.experts.M.gate_proj|up_proj|down_proj.weight   Qwen, DeepSeek, OLMoE, ...
///   PREFIX.layers.N.block_sparse_moe.experts.M.w1|w3|w2.weight         Mixtral, Phi-3.5-MoE
/// or all experts of a layer in one tensor [experts, rows, columns], gate and up in one:
///   PREFIX.layers.N.mlp|feed_forward.experts.gate_up_proj|down_proj    gpt-oss, Llama 4
struct ExpertTensorName {
  std::uint32_t layer = 0;
  std::optional<std::uint32_t> expert;  // none: all of them
  std::string_view kind;                // "gate", "up", "down" or "gate_up"
  // The name is before + layer + middle + expert + after. Views into it.
  std::string_view before, middle, after;

  /// The name that this kind of tensor of another layer and expert has.
  std::string of(std::uint32_t other_layer, std::uint32_t other_expert) const;
};

/// Nothing where it is no such name. The result looks into `name`.
std::optional<ExpertTensorName> parse_expert_tensor_name(std::string_view name);

}  // namespace moelab
