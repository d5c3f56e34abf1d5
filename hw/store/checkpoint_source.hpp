// The routed experts of a safetensors checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hw/store/store_file.hpp"
#include "hw/store/weight_source.hpp"
#include "traces/safetensors.hpp"

namespace moelab {

class CheckpointTensors;

/// A checkpoint of BF16 weights; expert_tensor_name.hpp says which families' names are known. Other tensors
/// of the checkpoint are not looked at.
class CheckpointSource final : public WeightSource {
 public:
  /// `path`: a safetensors file, an index of several ("model.safetensors.index.json"), or a folder with
  /// either. `model`: what it is called; empty: after its folder. Throws InputError that names the tensor:
  /// not BF16, missing, of another shape than the other experts', there twice; or no tensor is an expert's.
  CheckpointSource(const std::filesystem::path& path, const std::string& model);

  const ExpertWeights& weights() const override { return weights_; }
  /// Names, sizes and times of change of the files.
  std::string identity() const override { return identity_; }
  /// Throws InputError where a file was cut short, or cannot be read, since it was opened.
  void read(TensorPlace place, std::span<std::uint16_t> into) const override;

 private:
  struct OpenFile {
    SafetensorsFile mapped;
    std::optional<StoreFile> plain;  // not of a compressed file, whose decompressed bytes are our own
  };

  void add_file(const std::filesystem::path& path);
  void add_indexed(const std::filesystem::path& index, CheckpointTensors& tensors);

  ExpertWeights weights_;
  std::string identity_;
  std::vector<OpenFile> files_;
  std::vector<std::span<const std::byte>> tensors_;  // by ordinal, in the mapped files
};

}  // namespace moelab
