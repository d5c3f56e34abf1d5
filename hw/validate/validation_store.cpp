#include "hw/validate/validation_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <system_error>

#include "hw/codec/chunk.hpp"
#include "hw/executor/whole_tensors.hpp"
#include "hw/store/synthetic_source.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

namespace fs = std::filesystem;

/// All that decides the store's bytes.
std::string content_of(const SyntheticSource& source, const PackOptions& how) {
  const ExpertWeights& weights = source.weights();
  std::string text = source.identity() + "; " + weights.model + "; " + std::to_string(weights.experts);
  for (const std::uint32_t layer : weights.layers) text += " " + std::to_string(layer);
  for (const ExpertTensorKind& kind : weights.kinds)
    text += "; " + kind.name + " " + std::to_string(kind.rows) + " " + std::to_string(kind.columns);
  return text + "; " + find_codec(how.codec)->name() + " " + std::to_string(how.shards);
}

std::string name_of(const SyntheticSource& source, const PackOptions& how) {
  const std::string content = content_of(source, how);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx",
                static_cast<unsigned long long>(checksum(std::as_bytes(std::span(content)))));
  return source.weights().model + "-" + how.codec + "-k" + std::to_string(how.shards) + "-" + hash + ".store";
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw InputError(folder.string(), "is no folder, and cannot be made one" +
                                          (error ? ": " + error.message() : std::string()));
}

void require_same(const ChunkStoreReader& store, const SyntheticSource& source, const fs::path& path) {
  if (store.weights() != source.weights())
    throw InputError(path.string(), "is a store of " + store.weights().model + " (" + store.weights().source +
                                        "), not of " + source.weights().model + " (" +
                                        source.weights().source + "): remove it, and it is packed anew");
  ChunkDecoder decoder;
  const auto layers = static_cast<std::uint32_t>(source.weights().layers.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const TensorPlace place{layer, layer % source.weights().experts, 0};
    std::vector<std::uint16_t> has(source.weights().kinds[0].elements()), wants(has.size());
    store.read_tensor(decoder, place, has);
    source.read(place, wants);
    if (has != wants)
      throw InputError(path.string(), to_string(source.weights(), place) +
                                          " has other weights than it should: remove the store, and it is "
                                          "packed anew");
  }
}

}  // namespace

ValidationStore::ValidationStore(const Architecture& model, std::uint64_t seed, const fs::path& folder,
                                 const PackOptions& how) {
  const SyntheticSource source(expert_weights_of(model), seed);
  make_folder(folder);
  path_ = folder / name_of(source, how);
  was_there_ = fs::exists(path_);
  if (!was_there_) pack(source, path_, how);
  chunks_ = std::make_unique<ChunkStoreReader>(path_);
  if (was_there_) require_same(*chunks_, source, path_);
  measure();
}

void ValidationStore::measure() {
  const ExpertWeights& weights = chunks_->weights();
  std::vector<double> of_tensor(weights.tensors(), 0);
  double stored = 0;
  for (std::uint64_t ordinal = 0; ordinal < weights.tensors(); ++ordinal) {
    for (std::uint32_t shard = 0; shard < chunks_->description().shards; ++shard)
      of_tensor[ordinal] +=
          static_cast<double>(chunks_->exponent_chunk(place_of(weights, ordinal), shard).record.stored_bytes);
    stored += of_tensor[ordinal];
  }
  ratio_ = stored / static_cast<double>(weights.weights());
  double above = 0;
  for (std::uint64_t ordinal = 0; ordinal < weights.tensors(); ++ordinal) {
    const auto elements = static_cast<double>(weights.kinds[place_of(weights, ordinal).kind].elements());
    above += std::max(0.0, of_tensor[ordinal] - ratio_ * elements);
  }
  surplus_ = static_cast<std::uint64_t>(std::ceil(above));
}

const fs::path& ValidationStore::whole_tensors() {
  if (!whole_.empty()) return whole_;
  fs::path file = path_;
  file.replace_extension(".whole");
  std::error_code error;
  if (fs::file_size(file, error) != whole_tensors_bytes(chunks_->weights()) || error)
    write_whole_tensors(*chunks_, file);
  return whole_ = file;
}

}  // namespace moelab
