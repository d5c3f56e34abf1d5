#include "hw/store/checkpoint_tensors.hpp"

#include <algorithm>
#include <set>

#include "models/input_error.hpp"

namespace moelab {

namespace {

std::string described(const Tensor& tensor) {
  return describe_tensor(tensor.name, tensor.dtype, tensor.shape);
}

}  // namespace

bool CheckpointTensors::is_wanted(const std::string& name) {
  if (parse_expert_tensor_name(name)) return true;
  const bool bias = name.ends_with("_bias") || name.ends_with(".bias");  // small, and not packed
  if (unknown_.empty() && !bias && name.find(".experts.") != std::string::npos) unknown_ = name;
  return false;
}

std::vector<std::string> CheckpointTensors::kind_names() const {
  if (fused_) return {"gate_up", "down"};
  return {"gate", "up", "down"};
}

void CheckpointTensors::add(const std::string& file, const Tensor& tensor) {
  const ExpertTensorName name = *parse_expert_tensor_name(tensor.name);
  if (tensor.dtype != Dtype::bf16)
    throw InputError(file, described(tensor) + " is not BF16; only BF16 checkpoints can be packed");
  const bool fused = !name.expert;
  if (tensor.shape.size() != (fused ? 3U : 2U))
    throw InputError(
        file, described(tensor) + ": expected " + (fused ? "[experts, rows, columns]" : "[rows, columns]"));
  if (found_.empty()) fused_ = fused;
  if (fused != fused_)
    throw InputError(file, described(tensor) + " and tensor " +
                               quoted_name(found_.begin()->second.tensor->name) +
                               ": experts both one by one and all in one");
  const std::vector<std::string> kinds = kind_names();
  const auto kind =
      static_cast<std::uint32_t>(std::find(kinds.begin(), kinds.end(), name.kind) - kinds.begin());
  const auto [at, is_new] =
      found_.emplace(Key{name.layer, name.expert.value_or(0), kind}, Found{file, name, &tensor});
  if (!is_new)
    throw InputError(file, described(tensor) + " and tensor " + quoted_name(at->second.tensor->name) +
                               " are the same part of the same expert");
}

const CheckpointTensors::Found& CheckpointTensors::of_kind(std::uint32_t kind) const {
  for (const auto& [key, found] : found_)
    if (key[2] == kind) return found;
  throw InputError(file_, "has no expert's tensor of kind '" + kind_names()[kind] + "', but tensor " +
                              quoted_name(found_.begin()->second.tensor->name));
}

const CheckpointTensors::Found& CheckpointTensors::require(const Key& key) const {
  const auto found = found_.find(key);
  if (found != found_.end()) return found->second;
  throw InputError(file_, "tensor " + quoted_name(of_kind(key[2]).name.of(key[0], key[1])) + " is missing");
}

void CheckpointTensors::fail_without() const {
  throw InputError(file_,
                   "has no routed experts by a name that is known (such as model.layers.0.mlp.experts.0."
                   "gate_proj.weight)" +
                       (unknown_.empty() ? ""
                                         : "; tensor " + quoted_name(unknown_) +
                                               " is of another form, "
                                               "such as a quantized one"));
}

ExpertWeights CheckpointTensors::found_weights() const {
  ExpertWeights weights;
  std::set<std::uint32_t> layers;
  for (const auto& [key, found] : found_) {
    layers.insert(key[0]);
    weights.experts = std::max(weights.experts, key[1] + 1);
  }
  weights.layers.assign(layers.begin(), layers.end());
  const std::vector<std::string> kinds = kind_names();
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    const std::vector<std::uint64_t>& shape = of_kind(k).tensor->shape;
    weights.kinds.push_back({kinds[k], shape[shape.size() - 2], shape.back()});
    if (fused_) weights.experts = static_cast<std::uint32_t>(std::min<std::uint64_t>(shape[0], 1U << 31));
  }
  require_sound({weights, "none", 1}, file_);
  return weights;
}

std::span<const std::byte> CheckpointTensors::values(const ExpertWeights& weights, std::uint32_t layer,
                                                     std::uint32_t expert, std::uint32_t kind) const {
  const Found& found = require({layer, fused_ ? 0 : expert, kind});
  const Tensor& tensor = *found.tensor;
  const Tensor& first = *of_kind(kind).tensor;
  if (tensor.shape != first.shape)
    throw InputError(found.file, described(tensor) + " has not the shape of " + described(first));
  if (!fused_) return tensor.data;
  if (tensor.shape[0] != weights.experts)
    throw InputError(found.file, described(tensor) + " has not " + std::to_string(weights.experts) +
                                     " experts, as the other tensors have");
  const std::size_t bytes = tensor.data.size() / weights.experts;
  return tensor.data.subspan(expert * bytes, bytes);
}

std::vector<std::span<const std::byte>> CheckpointTensors::in_order(ExpertWeights& weights) const {
  if (found_.empty()) fail_without();
  weights = found_weights();
  std::vector<std::span<const std::byte>> tensors;
  for (const std::uint32_t layer : weights.layers)
    for (std::uint32_t expert = 0; expert < weights.experts; ++expert)
      for (std::uint32_t k = 0; k < weights.kinds.size(); ++k)
        tensors.push_back(values(weights, layer, expert, k));  // the first that is missing ends it
  return tensors;
}

}  // namespace moelab
