// What a chunk store says of its weights: exponent entropy, and sizes by codec beside the bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

/// Sizes of the planes as one codec stores them, without the zeros between chunks.
struct CodecSize {
  std::string codec;
  std::uint64_t exponent_plane_bytes = 0, exponent_stored_bytes = 0;
  std::uint64_t sign_mantissa_bytes = 0;
  std::uint64_t chunks = 0, plain_chunks = 0;  // E-chunks; those that the codec would not have made smaller

  /// Stored over decoded: of the exponent plane, and of the BF16 tensor.
  double plane_ratio() const;
  double tensor_ratio() const;
};

struct StoreReport {
  double exponent_entropy = 0;         // bits, of all exponents of the store counted together
  double tensor_exponent_entropy = 0;  // bits, of each tensor's exponents by themselves; mean over weights
  std::uint32_t support = 0;           // exponents that occur, of 256
  CodecSize size;                      // as it is
  std::uint64_t data_bytes = 0;        // of chunks.data, with the zeros

  /// What no order-0 code of all exponents together undercuts, with 8 bits of sign and mantissa: share of
  /// BF16's 16 bits.
  double bound() const { return (8 + exponent_entropy) / 16; }
};

StoreReport report_on(const ChunkStoreReader& store);

/// What every codec of the table, at its usual level, makes of `tensors` of the store's tensors, spread
/// evenly, at the store's number of shards. Throws InputError as ChunkStoreReader::read_tensor.
std::vector<CodecSize> compare_codecs(const ChunkStoreReader& store, std::uint64_t tensors);

}  // namespace moelab
