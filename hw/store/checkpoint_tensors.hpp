// Puts the experts' tensors of a checkpoint, found in any order, into the order of a store. Private to
// checkpoint_source.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hw/store/chunk_store.hpp"
#include "hw/store/expert_tensor_name.hpp"
#include "traces/safetensors.hpp"

namespace moelab {

class CheckpointTensors {
 public:
  /// `file`: what messages about the whole are about.
  explicit CheckpointTensors(std::string file) : file_(std::move(file)) {}

  /// Whether this is a name of an expert's weights. Remembers one that looks like it and is not, for the
  /// message where there is none.
  bool is_wanted(const std::string& name);
  /// `tensor` must stay where it is. Throws InputError about `file` where it is not BF16, has not the
  /// dimensions that its name implies, or is there already.
  void add(const std::string& file, const Tensor& tensor);
  /// Fills layers, experts and kinds; returns the tensors' bytes by ordinal. Throws InputError where experts
  /// are missing, shapes differ, or there is nothing.
  std::vector<std::span<const std::byte>> in_order(ExpertWeights& weights) const;

 private:
  struct Found {
    std::string file;
    ExpertTensorName name;
    const Tensor* tensor;
  };
  using Key = std::array<std::uint32_t, 3>;  // layer, expert (0 where all are in one), kind in kind_names()

  std::vector<std::string> kind_names() const;
  const Found& of_kind(std::uint32_t kind) const;
  const Found& require(const Key& key) const;
  ExpertWeights found_weights() const;
  std::span<const std::byte> values(const ExpertWeights& weights, std::uint32_t layer, std::uint32_t expert,
                                    std::uint32_t kind) const;
  [[noreturn]] void fail_without() const;

  std::string file_, unknown_;
  bool fused_ = false;  // one tensor holds all experts of a layer
  std::map<Key, Found> found_;
};

}  // namespace moelab
