#include "hw/executor/device_experts.hpp"

#include <algorithm>
#include <stdexcept>

#include "hw/codec/chunk.hpp"
#include "hw/codec/codec_error.hpp"
#include "hw/io/reader.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

MemorySource& own_memory_of(ComputeDevice& gpu) {
  if (gpu.memory() == nullptr || gpu.paging() == nullptr)
    throw std::invalid_argument(
        "hardware: experts in the memory of a GPU that has none of its own, or does not page");
  return *gpu.memory();
}

/// A store's data in memory, a chunk after the other.
struct ChunksRead {
  std::vector<AlignedMemory> memory;
  std::vector<ChunkRecord> records;
  std::vector<std::span<const std::byte>> chunks;

  void add(Reader& reader, const StoredChunk& chunk) {
    const std::uint64_t bytes = chunk.record.stored_bytes;
    memory.emplace_back(bytes);
    records.push_back(chunk.record);
    chunks.emplace_back(memory.back().bytes());
    if (bytes == 0) return;  // a shard may be empty
    reader.submit({chunk.offset, memory.back().bytes()});
    if (reader.wait().bytes < bytes) throw CodecError("ends within a chunk");
  }
};

}  // namespace

DeviceExperts::DeviceExperts(const ChunkStoreReader& store, ComputeDevice& gpu, MemoryLedger& ledger,
                             bool verify)
    : store_(store),
      weights_(store.weights()),
      gpu_(gpu),
      ledger_(ledger),
      verify_(verify),
      pool_(own_memory_of(gpu), ledger),
      parts_(weights_.tensors()) {}

DeviceExperts::~DeviceExperts() {
  for (Parts& parts : parts_) pool_.give(parts.tensor);
  ledger_.give(compressed_bytes_);
}

void DeviceExperts::keep_whole(TensorPlace place, const HostExperts& host) {
  const std::span<const std::byte> from = std::as_bytes(host.tensor(place));
  Buffer& tensor = parts_[ordinal_of(weights_, place)].tensor;
  tensor = pool_.take(from.size());
  gpu_.load(from, tensor.as<std::uint16_t>());
}

void DeviceExperts::keep_chunks(TensorPlace place) {
  const auto reader = open_reader(store_.data_path(), {ReadMode::buffered, 1});
  const std::uint32_t shards = store_.description().shards;
  ChunksRead read;
  try {
    for (std::uint32_t i = 0; i < shards; ++i) read.add(*reader, store_.exponent_chunk(place, i));
    read.add(*reader, store_.sign_mantissa_chunk(place));
    for (const ChunkRecord& record : read.records) {
      ledger_.take(record.stored_bytes);
      compressed_bytes_ += record.stored_bytes;
    }
    parts_[ordinal_of(weights_, place)].compressed =
        gpu_.paging()->keep({weights_.kinds[place.kind].elements(), read.records, read.chunks}, verify_);
  } catch (const CodecError& error) {
    fail(place, error);
  }
}

void DeviceExperts::fail(TensorPlace place, const CodecError& error) const {
  throw InputError(store_.data_path().string(),
                   to_string(weights_, place) + ": " + error.what() + " (damaged, or of another store)");
}

std::span<const std::uint16_t> DeviceExperts::tensor(TensorPlace place) const {
  const Buffer& tensor = parts(place).tensor;
  if (!tensor)
    throw std::logic_error("hardware: " + to_string(weights_, place) + " is not in the GPU's memory");
  return tensor.as<const std::uint16_t>();
}

void DeviceExperts::decode_all(std::span<const Placed> tensors) {
  std::vector<TensorDecoding> decodings;
  for (const Placed& tensor : tensors) {
    decodings.push_back({parts(tensor.place).compressed.get(), tensor.into});
    if (decodings.back().tensor == nullptr)
      throw std::logic_error("hardware: " + to_string(weights_, tensor.place) +
                             " is not compressed in the GPU's memory");
  }
  try {
    gpu_.paging()->decode_all(decodings);
  } catch (const CodecError&) {  // of one of them: again, to say which
    for (std::size_t i = 0; i < tensors.size(); ++i) try {
        decodings[i].tensor->decode(decodings[i].into);
      } catch (const CodecError& error) {
        fail(tensors[i].place, error);
      }
    throw;
  }
}

}  // namespace moelab
