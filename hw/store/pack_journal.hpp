// What an unfinished chunk store knows of itself: a file beside its data to which a record is added once a
// tensor's chunks are written. After a kill at any moment the records that are whole, and whose chunks are
// what they say, are where packing goes on. Little-endian 64-bit words:
//
//   header   "MOELABPJ", version, fingerprint of what is packed, XXH3 of the words before
//   record   tensor's number, XXH3 of its weights, K + 1 times (stored bytes, XXH3, 1 if by the store's
//            codec), how often each of the 256 exponents occurs, XXH3 of the words before
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hw/codec/huffman_code.hpp"
#include "hw/store/chunk_store.hpp"
#include "hw/store/store_file.hpp"

namespace moelab {

struct JournalRecord {
  std::uint64_t tensor_checksum;
  std::vector<ChunkRecord> chunks;  // plane_bytes is not in the file: the shards' own
  ByteCounts exponents;
};

class PackJournal {
 public:
  /// Opens or creates the journal and locks it. `identity`: of the source. Throws InputError where another
  /// process has it locked, or it is the journal of another pack (other source, model, codec or shards).
  PackJournal(const std::filesystem::path& path, ChunkStoreDescription description,
              const std::string& identity);

  /// The record of tensor `ordinal`; nothing where it is not there, or not whole.
  std::optional<JournalRecord> read(std::uint64_t ordinal) const;
  /// Drops record `ordinal` and all after it.
  void cut(std::uint64_t ordinal);
  void write(std::uint64_t ordinal, const JournalRecord& record);

 private:
  std::uint64_t record_words() const;
  std::uint64_t offset_of(std::uint64_t ordinal) const;

  ChunkStoreDescription description_;
  StoreFile file_;
};

}  // namespace moelab
