#include "hw/store/chunk_store_reader.hpp"

#include <stdexcept>
#include <system_error>

#include "hw/codec/planes.hpp"
#include "models/input_error.hpp"

namespace moelab {

namespace {

/// The index of what must be a store: says so where it is something else.
ChunkStoreIndex open_index(const std::filesystem::path& store) {
  std::error_code ignored;
  if (std::filesystem::exists(store, ignored) && !std::filesystem::is_directory(store, ignored))
    throw InputError(store.string(), "is not a chunk store, which is a folder that 'moelab pack' makes");
  return ChunkStoreIndex::read(store / kStoreIndexName);
}

}  // namespace

ChunkStoreReader::ChunkStoreReader(const std::filesystem::path& store)
    : data_path_(store / kStoreDataName),
      index_(open_index(store)),
      data_(StoreFile::open_to_read(data_path_)) {
  const std::uint64_t found = data_.bytes(), due = index_.data_bytes();
  if (found != due)
    throw InputError(data_.name(), "has " + std::to_string(found) + " bytes, its index expects " +
                                       std::to_string(due) +
                                       (found < due ? " (cut short?)" : " (of another store?)"));
}

StoredChunk ChunkStoreReader::exponent_chunk(TensorPlace place, std::uint32_t shard) const {
  return index_.chunk(ordinal_of(weights(), place), shard);
}

StoredChunk ChunkStoreReader::sign_mantissa_chunk(TensorPlace place) const {
  return index_.chunk(ordinal_of(weights(), place), description().shards);
}

std::uint64_t ChunkStoreReader::tensor_checksum(TensorPlace place) const {
  return index_.tensor(ordinal_of(weights(), place)).checksum;
}

void ChunkStoreReader::read_tensor(ChunkDecoder& decoder, TensorPlace place,
                                   std::span<std::uint16_t> into) const {
  const IndexedTensor tensor = index_.tensor(ordinal_of(weights(), place));
  const std::size_t elements = weights().kinds[place.kind].elements();
  if (into.size() != elements) throw std::invalid_argument("a tensor is read into as many elements");
  // They lie one after the other: one read.
  const std::uint64_t first = tensor.chunks.front().offset;
  const StoredChunk& last = tensor.chunks.back();
  std::vector<std::byte> stored(last.offset + last.record.stored_bytes - first);
  data_.read_at(first, stored);

  const auto fail = [&](const std::string& part, const char* what) {
    throw InputError(data_.name(), to_string(weights(), place) + ", " + part + ": " + what +
                                       " (damaged, or the data of another store)");
  };
  std::vector<std::byte> planes(2 * elements);
  std::size_t at = 0;
  for (std::size_t c = 0; c < tensor.chunks.size(); ++c) {
    const auto& [record, offset] = tensor.chunks[c];
    try {
      decoder.decode(record, std::span(stored).subspan(offset - first, record.stored_bytes),
                     std::span(planes).subspan(at, record.plane_bytes));
    } catch (const CodecError& error) {
      fail((c + 1 < tensor.chunks.size() ? "E-chunk " + std::to_string(c) : std::string("SM-chunk")) +
               " at byte " + std::to_string(offset),
           error.what());
    }
    at += record.plane_bytes;
  }
  join_planes(std::span(planes).first(elements), std::span(planes).subspan(elements), into);
  if (checksum(into) != tensor.checksum)
    fail("joined", "the tensor's checksum is not the one it was packed with");
}

}  // namespace moelab
