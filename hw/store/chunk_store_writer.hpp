// Writing a chunk store, tensor by tensor, so that an interruption at any moment costs at most the tensors
// that were on the way.
#pragma once

#include <filesystem>
#include <string>

#include "hw/store/chunk_store_index.hpp"
#include "hw/store/pack_journal.hpp"
#include "hw/store/store_file.hpp"

namespace moelab {

/// Writes into the folder "STORE.partial", which finish() gives the store's name. Not finished (killed, disk
/// full, an exception), the folder stays, and a writer of the same store, description and identity goes on
/// from it: what its journal says is believed where the chunks' checksums confirm it. One thread at a time.
class ChunkStoreWriter {
 public:
  /// `identity`: a text that is another where the source's values are. Throws InputError where the store
  /// exists, the folder holds another unfinished store or another process writes there, or what is to be
  /// written cannot be.
  ChunkStoreWriter(const std::filesystem::path& store, ChunkStoreDescription description,
                   const std::string& identity);

  /// Tensors that are in it already: add() goes on with this one.
  std::uint64_t tensors_done() const { return index_.tensors(); }
  /// The next tensor in order (ordinal_of). `exponents`: how often each one occurs in it. Throws InputError
  /// where it cannot be written; the writer is then of no more use.
  void add(const TensorChunks& tensor, const ByteCounts& exponents);
  /// To be called once, when all tensors are there.
  void finish();

 private:
  void resume();
  bool data_is(const JournalRecord& record) const;

  std::filesystem::path store_, partial_;
  ChunkStoreIndex index_;
  PackJournal journal_;
  StoreFile data_;
};

/// Where an unfinished store is: its name without a slash at the end, and ".partial".
std::filesystem::path partial_store(const std::filesystem::path& store);

}  // namespace moelab
