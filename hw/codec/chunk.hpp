// Chunks: the pieces in which a tensor is stored, read and decoded. A tensor's exponent plane is cut into K
// shards, each encoded by itself: the E-chunks. Its sign-mantissa plane, which does not compress, is stored
// as it is: the SM-chunk. Each chunk's record says what its bytes must be before any of them is believed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hw/codec/codec.hpp"

namespace moelab {

/// XXH3, 64 bits, seed 0 (xxHash 0.8, whose values are fixed since): of a chunk's stored bytes, or of a
/// tensor's.
std::uint64_t checksum(std::span<const std::byte> bytes);
/// Of the weights as they lie in memory, little-endian.
std::uint64_t checksum(std::span<const std::uint16_t> weights);

/// All that is known of a chunk beside its bytes and where they are.
struct ChunkRecord {
  std::string codec;           // Codec::name(); "none" too where encoding would not have made it smaller
  std::uint64_t plane_bytes;   // decoded
  std::uint64_t stored_bytes;  // encoded
  std::uint64_t checksum;      // of the stored bytes
  bool operator==(const ChunkRecord&) const = default;
};

struct Chunk {
  ChunkRecord record;
  std::vector<std::byte> stored;  // record.stored_bytes
};

/// Part of a plane, in bytes of the plane, which are elements of the tensor.
struct ShardRange {
  std::size_t first, size;
};

/// Shard `shard` of `shards`, counting from 0: all have ceil(plane / shards) bytes but the last that are not
/// empty has what is left (and those after it, of a plane with few bytes, nothing). Throws
/// std::invalid_argument unless shard < shards.
ShardRange shard_range(std::size_t plane_bytes, std::size_t shards, std::size_t shard);

/// Encodes a plane, or stores it as it is where that is not larger.
Chunk make_chunk(Codec& codec, std::span<const std::byte> plane);

/// A tensor as it is stored.
struct TensorChunks {
  std::uint64_t elements;
  std::uint64_t tensor_checksum;  // of the BF16 weights
  std::vector<Chunk> exponents;   // K of them
  Chunk sign_mantissas;
};

/// Splits the weights and makes their chunks. Throws std::invalid_argument for 0 shards.
TensorChunks make_tensor_chunks(Codec& codec, std::span<const std::uint16_t> weights, std::size_t shards);

/// Decodes chunks by whatever codec their records name. One object a thread.
class ChunkDecoder {
 public:
  enum class Checksums { verify, skip };  // skip: to time decoding alone, on bytes that were verified before
  explicit ChunkDecoder(Checksums checksums = Checksums::verify) : checksums_(checksums) {}

  /// Fills `plane` from the chunk's stored bytes. Throws CodecError where sizes or checksum are not the
  /// record's, or the bytes do not decode; InputError where no codec has the record's name.
  void decode(const ChunkRecord& record, std::span<const std::byte> stored, std::span<std::byte> plane);

 private:
  Checksums checksums_;
  std::map<std::string, std::unique_ptr<Codec>, std::less<>> codecs_;  // those met so far
};

/// The whole way back, in one thread: decodes every chunk, joins the planes, and compares the tensor's
/// checksum. Throws as ChunkDecoder::decode, and CodecError where the tensor is not the one that was stored,
/// has not `weights.size()` elements, or has no shards.
void decode_tensor(ChunkDecoder& decoder, const TensorChunks& tensor, std::span<std::uint16_t> weights);

}  // namespace moelab
