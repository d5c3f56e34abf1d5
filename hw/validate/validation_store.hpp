// The experts that a validation reads: synthetic, packed once and kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "hw/store/chunk_store_reader.hpp"
#include "hw/store/pack.hpp"

namespace moelab {

class ValidationStore {
 public:
  /// Packs the experts of `model` into `folder`, under a name that says what they are (model, codec, shards
  /// and a checksum of all that decides their bytes), or opens what is there, of which a tensor a layer is
  /// compared with what it should be. An interrupted pack is gone on from. Throws InputError where what is
  /// there is damaged or something else, and as pack() does.
  ValidationStore(const Architecture& model, std::uint64_t seed, const std::filesystem::path& folder,
                  const PackOptions& how);

  const ChunkStoreReader& chunks() const { return *chunks_; }
  bool was_there() const { return was_there_; }
  /// The file of whole tensors beside the store, written on first use. Throws as write_whole_tensors.
  const std::filesystem::path& whole_tensors();

  /// Compressed over plain bytes of the exponent planes, all together: what makes simulated bytes as many as
  /// there are.
  double ratio() const { return ratio_; }
  /// By how much the E-chunks of some tensors, whichever, can exceed what the ratio says of so many.
  std::uint64_t surplus() const { return surplus_; }

 private:
  void measure();

  std::filesystem::path path_, whole_;
  bool was_there_ = false;
  std::unique_ptr<ChunkStoreReader> chunks_;
  double ratio_ = 1;
  std::uint64_t surplus_ = 0;
};

}  // namespace moelab
