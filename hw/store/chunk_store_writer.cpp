#include "hw/store/chunk_store_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab {

namespace {

constexpr const char* kJournalName = "journal";

std::filesystem::path without_slash(const std::filesystem::path& store) {
  return store.has_filename() ? store : store.parent_path();
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void require_new(const std::filesystem::path& store) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(store, error)))
    throw InputError(store.string(), "exists already; remove it, or name another");
}

/// Also removes what a killed process left of an index that it had begun.
std::filesystem::path made_folder(const std::filesystem::path& store) {
  require_new(without_slash(store));
  const std::filesystem::path folder = partial_store(store);
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) throw InputError(folder.string(), "cannot be created: " + error.message());
  return folder;
}

void remove_temporaries(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(".moelab-"))
      std::filesystem::remove(entry.path(), ignored);
}

ChunkStoreDescription sound(ChunkStoreDescription description, const std::filesystem::path& store) {
  require_sound(description, store.string());
  return description;
}

}  // namespace

std::filesystem::path partial_store(const std::filesystem::path& store) {
  std::filesystem::path partial = without_slash(store);
  partial += ".partial";
  return partial;
}

ChunkStoreWriter::ChunkStoreWriter(const std::filesystem::path& store, ChunkStoreDescription description,
                                   const std::string& identity)
    : store_(without_slash(store)),
      partial_(partial_store(store)),
      index_(sound(std::move(description), store)),
      journal_(made_folder(store) / kJournalName, index_.description(), identity),
      data_(StoreFile::open_to_write(partial_ / kStoreDataName)) {
  require_new(store_);  // again: who had the lock before us may have finished it
  remove_temporaries(partial_);
  resume();
}

void ChunkStoreWriter::resume() {
  while (!index_.is_whole()) {
    const std::optional<JournalRecord> record = journal_.read(tensors_done());
    if (!record || !data_is(*record)) break;
    index_.add(record->chunks, record->tensor_checksum, record->exponents);
  }
  journal_.cut(tensors_done());
  data_.resize(index_.data_bytes());
}

/// Whether the chunks that the record tells of stand where the next tensor's are due.
bool ChunkStoreWriter::data_is(const JournalRecord& record) const {
  std::uint64_t offset = index_.data_bytes();
  const std::uint64_t bytes = data_.bytes();
  std::vector<std::byte> stored;
  for (const ChunkRecord& chunk : record.chunks) {
    const std::uint64_t padded = aligned_chunk_bytes(chunk.stored_bytes);
    if (chunk.stored_bytes > chunk.plane_bytes || padded > bytes - offset) return false;
    stored.resize(padded);
    data_.read_at(offset, stored);
    const auto [chunk_bytes, padding] =
        std::pair(std::span(stored).first(chunk.stored_bytes), std::span(stored).subspan(chunk.stored_bytes));
    if (checksum(chunk_bytes) != chunk.checksum ||
        std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; }))
      return false;
    offset += padded;
  }
  return true;
}

void ChunkStoreWriter::add(const TensorChunks& tensor, const ByteCounts& exponents) {
  JournalRecord record{tensor.tensor_checksum, {}, exponents};
  std::vector<std::byte> bytes;
  const auto append = [&](const Chunk& chunk) {
    record.chunks.push_back(chunk.record);
    bytes.insert(bytes.end(), chunk.stored.begin(), chunk.stored.end());
    bytes.resize(aligned_chunk_bytes(bytes.size()));
  };
  for (const Chunk& chunk : tensor.exponents) append(chunk);
  append(tensor.sign_mantissas);
  const std::uint64_t ordinal = tensors_done(), offset = index_.data_bytes();
  index_.add(record.chunks, record.tensor_checksum, exponents);
  data_.write_at(offset, bytes);
  journal_.write(ordinal, record);
}

void ChunkStoreWriter::finish() {
  index_.write(partial_ / kStoreIndexName);
  data_.sync();
  sync_folder(partial_);
  if (std::rename(partial_.c_str(), store_.c_str()) != 0)
    throw InputError(store_.string(), std::string("cannot be given its name: ") + std::strerror(errno));
  sync_folder(folder_of(store_));
  std::error_code ignored;  // a journal that stays does no harm
  std::filesystem::remove(store_ / kJournalName, ignored);
}

}  // namespace moelab
