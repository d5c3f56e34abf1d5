// The tensors of one layer of a GGUF file, by the names that llama.cpp gives them (src/llama-arch.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/gguf.hpp"
#include "models/weight_format.hpp"

namespace moelab::gguf {

struct LayerTensors {
  std::map<std::string, const TensorInfo*, std::less<>> tensors;  // by what follows "blk.12."

  bool has(std::string_view name) const { return tensors.contains(name); }
  bool has_weight(std::string_view stem) const { return has(std::string(stem) + ".weight"); }
  /// Any whose name begins so.
  bool has_any(std::string_view beginning) const;
  /// Some projection of attention, of whatever kind.
  bool has_attention() const;
  /// All that a state space of Mamba-2 needs, and nothing that Mamba-1 alone has.
  bool is_mamba2() const;
  /// nullptr: there is none.
  const TensorInfo* weight(std::string_view stem) const;
  /// The part of a model that a tensor of this layer belongs to; nullopt where layers of its kind are not
  /// covered.
  std::optional<WeightPart> part_of(std::string_view name) const;
};

/// "blk.12.attn_q.weight" to 12 and "attn_q.weight"; nullopt for tensors outside of layers.
std::optional<std::pair<int, std::string>> in_layer(std::string_view name);
/// Whether it stands outside of layers and is neither embedding nor head: norms and positions.
bool is_loose(std::string_view name);

}  // namespace moelab::gguf
