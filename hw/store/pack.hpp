// Packing: from a source of weights to a chunk store, and the proof that nothing changed on the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "hw/store/chunk_store_reader.hpp"
#include "hw/store/weight_source.hpp"

namespace moelab {

/// Tensors done, of all. Called by one thread at a time, but not always the same.
using PackProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

struct PackOptions {
  std::string codec = "fixed3";  // as find_codec takes it
  std::uint32_t shards = 5;      // K
  unsigned threads = 1;
  PackProgress progress;
};

/// Packs every tensor of the source, on from where an interrupted pack of the same source and options was.
/// The store's bytes are the same on any number of threads. Returns how many tensors were there already.
/// Throws InputError as ChunkStoreWriter and the source do; what is done by then stays and is gone on from.
std::uint64_t pack(const WeightSource& source, const std::filesystem::path& store,
                   const PackOptions& options);

/// Reads every tensor back and compares each bit with the source. Throws InputError that names the first
/// tensor that cannot be read or is another. The store must have the source's layers, experts and kinds
/// (InputError).
void verify_store(const ChunkStoreReader& store, const WeightSource& source, unsigned threads,
                  const PackProgress& progress);

}  // namespace moelab
