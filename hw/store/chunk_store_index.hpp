// The index of a chunk store: a safetensors file, so that other programs read it with one line. L MoE layers
// of E experts of T tensors of K shards:
//
//   __metadata__      format "moelab chunk store", version "1", model, source, codec, kinds ("gate,up,down"),
//                     data_bytes (of chunks.data), checksum
//   layers            U32 [L]           numbers of the MoE layers in the model
//   shapes            U64 [T, 2]        rows and columns of each kind
//   offsets           U64 [L, E, T, K + 1]  where in chunks.data a chunk starts: E-chunks, then the SM-chunk
//   stored_bytes      U64 [L, E, T, K + 1]  without the zeros after it
//   checksums         U64 [L, E, T, K + 1]  XXH3 of these bytes
//   codecs            U8  [L, E, T, K + 1]  0: stored as it is; 1: by the store's codec
//   tensor_checksums  U64 [L, E, T]     XXH3 of the BF16 weights
//   exponent_counts   U64 [L, 256]      how often each exponent occurs in a layer
//   exponent_entropy  F64 [L, E, T]     bits, of each tensor by itself
//
// The checksum is over all of it (16 hexadecimal digits; chunk_store_index.cpp says how): an index that has
// changed in any bit is refused before anything in it is believed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "hw/codec/huffman_code.hpp"
#include "hw/store/chunk_store.hpp"

namespace moelab {

/// A tensor as the index has it.
struct IndexedTensor {
  std::vector<StoredChunk> chunks;  // K E-chunks, then the SM-chunk
  std::uint64_t checksum;           // of the BF16 weights
  double exponent_entropy;          // bits
};

class ChunkStoreIndex {
 public:
  /// An index without tensors. The description must be sound.
  explicit ChunkStoreIndex(ChunkStoreDescription description);

  const ChunkStoreDescription& description() const { return description_; }
  std::uint64_t tensors() const { return tensor_checksums_.size(); }
  bool is_whole() const { return tensors() == description_.weights.tensors(); }
  /// Of chunks.data, up to the tensors there are.
  std::uint64_t data_bytes() const { return data_bytes_; }

  /// Adds the next tensor: its chunks' stored bytes, checksums and codecs (offsets follow from the sizes).
  /// `exponents`: how often each one occurs in it. Throws std::invalid_argument where these are not what a
  /// tensor of its place has.
  void add(const std::vector<ChunkRecord>& chunks, std::uint64_t checksum, const ByteCounts& exponents);

  StoredChunk chunk(std::uint64_t tensor, std::uint64_t number) const;
  IndexedTensor tensor(std::uint64_t ordinal) const;
  /// Of one layer, by its place.
  ByteCounts exponent_counts(std::uint32_t layer) const;

  /// Writes an index that is whole, atomically. Throws InputError.
  void write(const std::filesystem::path& path) const;
  /// Throws InputError where the file is not an index, of another version, or not as it was written.
  static ChunkStoreIndex read(const std::filesystem::path& path);

 private:
  std::uint64_t plane_bytes(std::uint64_t tensor, std::uint64_t number) const;
  void check_layout(const std::string& file) const;
  void check_statistics(const std::string& file) const;

  ChunkStoreDescription description_;
  std::uint64_t data_bytes_ = 0;
  std::vector<std::uint64_t> offsets_, stored_bytes_, checksums_;  // of all chunks
  std::vector<std::uint8_t> codecs_;
  std::vector<std::uint64_t> tensor_checksums_;
  std::vector<std::uint64_t> exponent_counts_;  // [layers, 256]
  std::vector<double> exponent_entropy_;
};

/// Shannon's entropy in bits a symbol; 0 where nothing is counted. The same on every machine.
double entropy_bits(const ByteCounts& counts);

}  // namespace moelab
