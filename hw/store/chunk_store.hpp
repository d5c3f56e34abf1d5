// What a chunk store is: the routed experts of one model as E- and SM-chunks on storage, in a folder of two
// files.
//
//   chunks.data        the chunks' bytes: layer after layer, expert after expert, tensor after tensor, of
//   each
//                      tensor the K E-chunks and then the SM-chunk. Every chunk starts at a multiple of
//                      kChunkAlignment and the file ends at one, so that all of it can be read past the page
//                      cache (O_DIRECT); the bytes between a chunk's end and the next one's start are zero.
//   index.safetensors  what the chunks are and where (chunk_store_index.hpp)
//
// A store has its name only when it is whole: it is written under "NAME.partial" (chunk_store_writer.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hw/codec/chunk.hpp"
#include "models/architecture.hpp"

namespace moelab {

inline constexpr std::uint64_t kChunkAlignment = 4096;
inline constexpr const char* kStoreDataName = "chunks.data";
inline constexpr const char* kStoreIndexName = "index.safetensors";

/// The multiple of kChunkAlignment at or after `bytes`.
constexpr std::uint64_t aligned_chunk_bytes(std::uint64_t bytes) {
  return (bytes + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
}

/// One of an expert's weight tensors, of the same shape in every expert.
struct ExpertTensorKind {
  std::string name;  // "gate", "up", "down"; "gate_up" where the checkpoint keeps the two in one
  std::uint64_t rows, columns;
  std::uint64_t elements() const { return rows * columns; }
  bool operator==(const ExpertTensorKind&) const = default;
};

/// The routed experts of a model: which there are and what they look like.
struct ExpertWeights {
  std::string model;                  // a model's name, or a checkpoint's
  std::string source;                 // where the values are from
  std::vector<std::uint32_t> layers;  // the number of each MoE layer in the model, rising
  std::uint32_t experts = 0;          // in every layer
  std::vector<ExpertTensorKind> kinds;
  bool operator==(const ExpertWeights&) const = default;

  std::uint64_t tensors() const { return std::uint64_t{layers.size()} * experts * kinds.size(); }
  std::uint64_t weights() const;  // elements of all tensors together
};

/// A tensor of a store, by places: `layer` counts in ExpertWeights::layers, `kind` in its kinds.
struct TensorPlace {
  std::uint32_t layer, expert, kind;
  bool operator==(const TensorPlace&) const = default;
};

/// Tensors in the order in which they are stored: kinds within experts within layers.
std::uint64_t ordinal_of(const ExpertWeights& weights, TensorPlace place);
TensorPlace place_of(const ExpertWeights& weights, std::uint64_t ordinal);
/// "layer 3, expert 17, gate", with the layer's number in the model.
std::string to_string(const ExpertWeights& weights, TensorPlace place);

/// A store's contents but for the chunks themselves.
struct ChunkStoreDescription {
  ExpertWeights weights;
  std::string codec;         // of E-chunks: Codec::name(); a chunk that it would not make smaller is "none"
  std::uint32_t shards = 0;  // K
  bool operator==(const ChunkStoreDescription&) const = default;

  std::uint64_t chunks_per_tensor() const { return std::uint64_t{shards} + 1; }
};

/// A chunk's record and where in chunks.data it starts.
struct StoredChunk {
  ChunkRecord record;
  std::uint64_t offset;
};

/// Throws InputError about `file` where sizes are zero or beyond what any model has, names are empty or come
/// twice, layers do not rise, or there is no such codec.
void require_sound(const ChunkStoreDescription& description, const std::string& file);

/// Throws InputError about `file` where these are not the experts of `model`: layers, experts or tensors'
/// shapes differ.
void require_model(const ExpertWeights& weights, const Architecture& model, const std::string& file);

/// What the experts of `model` look like: kinds gate, up and down, or up and down where it has two matrices.
/// `source` is left empty. Throws InputError where it has no experts, or not one shape for all.
ExpertWeights expert_weights_of(const Architecture& model);

}  // namespace moelab
