// Opening a chunk store and reading from it; see chunk_store.hpp for what one is.
#pragma once

#include <filesystem>
#include <span>

#include "hw/store/chunk_store_index.hpp"
#include "hw/store/store_file.hpp"

namespace moelab {

/// An open store. Any number of threads may read from one object.
class ChunkStoreReader {
 public:
  /// Believes nothing that it has not checked: the index against its checksum, sizes and offsets against each
  /// other and against chunks.data. Throws InputError that names the file and what is wrong with it.
  explicit ChunkStoreReader(const std::filesystem::path& store);

  const ChunkStoreDescription& description() const { return index_.description(); }
  const ExpertWeights& weights() const { return index_.description().weights; }
  const ChunkStoreIndex& index() const { return index_; }
  /// Where the chunks are, for readers that go past the page cache.
  const std::filesystem::path& data_path() const { return data_path_; }

  /// Places must be within weights(), `shard` below K.
  StoredChunk exponent_chunk(TensorPlace place, std::uint32_t shard) const;
  StoredChunk sign_mantissa_chunk(TensorPlace place) const;
  std::uint64_t tensor_checksum(TensorPlace place) const;

  /// The tensor's weights, row-major, bit for bit as they were packed. `into` has its number of elements
  /// (std::invalid_argument otherwise). Throws InputError where the file cannot be read or a chunk or the
  /// tensor has not the checksum it was packed with: what is then in `into` is not to be used.
  void read_tensor(ChunkDecoder& decoder, TensorPlace place, std::span<std::uint16_t> into) const;

 private:
  std::filesystem::path data_path_;
  ChunkStoreIndex index_;
  StoreFile data_;
};

}  // namespace moelab
