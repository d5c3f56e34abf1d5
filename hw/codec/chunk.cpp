#include "hw/codec/chunk.hpp"

#include <xxhash.h>

#include <algorithm>
#include <stdexcept>

#include "hw/codec/planes.hpp"

namespace moelab {

namespace {

void require_equal(const char* what, std::uint64_t found, std::uint64_t expected) {
  if (found == expected) return;
  throw CodecError(std::string("chunk: ") + what + " " + std::to_string(found) + ", expected " +
                   std::to_string(expected));
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::span<const std::uint16_t> weights) {
  return checksum(std::as_bytes(weights));
}

ShardRange shard_range(std::size_t plane_bytes, std::size_t shards, std::size_t shard) {
  if (shard >= shards) throw std::invalid_argument("a shard's number is below the number of shards");
  const std::size_t size = plane_bytes / shards + (plane_bytes % shards != 0);
  // Past the end once size * shard is, which could overflow for absurd numbers of shards: compare by
  // division.
  const std::size_t first = size == 0 || shard > plane_bytes / size ? plane_bytes : size * shard;
  return {first, std::min(size, plane_bytes - first)};
}

Chunk make_chunk(Codec& codec, std::span<const std::byte> plane) {
  std::vector<std::byte> stored = codec.encode(plane);
  std::string name = codec.name();
  if (stored.size() >= plane.size()) {
    stored.assign(plane.begin(), plane.end());
    name = "none";
  }
  const std::uint64_t sum = checksum(stored);
  return {{std::move(name), plane.size(), stored.size(), sum}, std::move(stored)};
}

TensorChunks make_tensor_chunks(Codec& codec, std::span<const std::uint16_t> weights, std::size_t shards) {
  if (shards == 0) throw std::invalid_argument("a tensor has at least one shard");
  std::vector<std::byte> exponents(weights.size()), sign_mantissas(weights.size());
  split_planes(weights, exponents, sign_mantissas);
  TensorChunks tensor = {
      weights.size(), checksum(weights), {}, make_chunk(*find_codec("none"), sign_mantissas)};
  for (std::size_t s = 0; s < shards; ++s) {
    const ShardRange range = shard_range(exponents.size(), shards, s);
    tensor.exponents.push_back(make_chunk(codec, std::span(exponents).subspan(range.first, range.size)));
  }
  return tensor;
}

void ChunkDecoder::decode(const ChunkRecord& record, std::span<const std::byte> stored,
                          std::span<std::byte> plane) {
  require_equal("stored bytes", stored.size(), record.stored_bytes);
  require_equal("plane bytes", plane.size(), record.plane_bytes);
  if (checksums_ == Checksums::verify) require_equal("checksum", checksum(stored), record.checksum);
  auto codec = codecs_.find(record.codec);
  if (codec == codecs_.end()) codec = codecs_.emplace(record.codec, find_codec(record.codec)).first;
  codec->second->decode(stored, plane);
}

void decode_tensor(ChunkDecoder& decoder, const TensorChunks& tensor, std::span<std::uint16_t> weights) {
  require_equal("elements", weights.size(), tensor.elements);
  if (tensor.exponents.empty()) throw CodecError("chunk: a tensor without shards");
  std::vector<std::byte> exponents(weights.size()), sign_mantissas(weights.size());
  for (std::size_t s = 0; s < tensor.exponents.size(); ++s) {
    const Chunk& chunk = tensor.exponents[s];
    const ShardRange range = shard_range(exponents.size(), tensor.exponents.size(), s);
    decoder.decode(chunk.record, chunk.stored, std::span(exponents).subspan(range.first, range.size));
  }
  decoder.decode(tensor.sign_mantissas.record, tensor.sign_mantissas.stored, sign_mantissas);
  join_planes(exponents, sign_mantissas, weights);
  require_equal("tensor checksum", checksum(weights), tensor.tensor_checksum);
}

}  // namespace moelab
