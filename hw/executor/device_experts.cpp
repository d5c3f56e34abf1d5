#include "hw/executor/device_experts.hpp"

#include <algorithm>
#include <stdexcept>

#include "hw/codec/chunk.hpp"
#include "hw/io/reader.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

MemorySource& own_memory_of(ComputeDevice& gpu) {
  if (gpu.memory() == nullptr)
    throw std::invalid_argument("hardware: experts in the memory of a GPU that has none of its own");
  return *gpu.memory();
}

std::size_t largest_plane(const ExpertWeights& weights) {
  std::size_t most = 0;
  for (const ExpertTensorKind& kind : weights.kinds) most = std::max<std::size_t>(most, kind.elements());
  return most;
}

}  // namespace

DeviceExperts::Scratch::Scratch(bool verify, std::size_t plane)
    : decoder(verify ? ChunkDecoder::Checksums::verify : ChunkDecoder::Checksums::skip), exponents(plane) {}

DeviceExperts::DeviceExperts(const ChunkStoreReader& store, ComputeDevice& gpu, MemoryLedger& ledger,
                             bool verify)
    : store_(store),
      weights_(store.weights()),
      gpu_(gpu),
      verify_(verify),
      pool_(own_memory_of(gpu), ledger),
      parts_(weights_.tensors()),
      scratch_(
          [verify, plane = largest_plane(weights_)] { return std::make_unique<Scratch>(verify, plane); }) {
  scratch_.fill(1);
}

DeviceExperts::~DeviceExperts() {
  for (Parts& parts : parts_) {
    pool_.give(parts.tensor);
    for (Buffer& chunk : parts.chunks) pool_.give(chunk);
  }
}

void DeviceExperts::keep_whole(TensorPlace place, const HostExperts& host) {
  const std::span<const std::byte> from = std::as_bytes(host.tensor(place));
  Buffer& tensor = parts_[ordinal_of(weights_, place)].tensor;
  tensor = pool_.take(from.size());
  gpu_.load(from, tensor.as<std::uint16_t>());
}

void DeviceExperts::keep_chunks(TensorPlace place) {
  const auto reader = open_reader(store_.data_path(), {ReadMode::buffered, 1});
  std::vector<Buffer>& chunks = parts_[ordinal_of(weights_, place)].chunks;
  for (std::uint32_t i = 0; i <= store_.description().shards; ++i) {
    const StoredChunk chunk =
        i < store_.description().shards ? store_.exponent_chunk(place, i) : store_.sign_mantissa_chunk(place);
    const std::uint64_t bytes = chunk.record.stored_bytes;
    Buffer& kept = chunks.emplace_back(pool_.take(bytes));
    if (bytes == 0) continue;  // a shard may be empty
    reader->submit({chunk.offset, kept.all()});
    if (reader->wait().bytes < bytes)
      throw InputError(store_.data_path().string(), "ends within " + to_string(weights_, place));
  }
}

std::span<const std::uint16_t> DeviceExperts::tensor(TensorPlace place) const {
  const Buffer& tensor = parts(place).tensor;
  if (!tensor)
    throw std::logic_error("hardware: " + to_string(weights_, place) + " is not in the GPU's memory");
  return tensor.as<const std::uint16_t>();
}

void DeviceExperts::check_sign_mantissas(TensorPlace place, const Buffer& chunk) const {
  if (!verify_ || checksum(chunk.all()) == store_.sign_mantissa_chunk(place).record.checksum) return;
  throw InputError(store_.data_path().string(),
                   to_string(weights_, place) + ", SM-chunk: its checksum is not the one it was packed with");
}

void DeviceExperts::decode(TensorPlace place, std::span<std::uint16_t> into) {
  const std::vector<Buffer>& chunks = parts(place).chunks;
  if (chunks.empty())
    throw std::logic_error("hardware: " + to_string(weights_, place) +
                           " is not compressed in the GPU's memory");
  const auto scratch = scratch_.lease();
  const std::span<std::byte> plane = scratch->exponents.bytes().first(into.size());
  const std::uint32_t shards = store_.description().shards;
  try {
    for (std::uint32_t i = 0; i < shards; ++i) {
      const ShardRange range = shard_range(plane.size(), shards, i);
      scratch->decoder.decode(store_.exponent_chunk(place, i).record, chunks[i].all(),
                              plane.subspan(range.first, range.size));
    }
  } catch (const CodecError& error) {
    throw InputError(store_.data_path().string(),
                     to_string(weights_, place) + ": " + error.what() + " (damaged, or of another store)");
  }
  check_sign_mantissas(place, chunks[shards]);
  gpu_.recover(plane, chunks[shards].all(), into);
}

}  // namespace moelab
