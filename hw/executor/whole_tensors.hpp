// For systems that do not compress: the experts of a chunk store as whole BF16 tensors in one file, each at a
// multiple of kChunkAlignment, in the store's order.
#pragma once

#include <cstdint>
#include <filesystem>

#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

/// Where a tensor starts in the file, and how long the file is.
std::uint64_t whole_tensor_offset(const ExpertWeights& weights, TensorPlace place);
std::uint64_t whole_tensors_bytes(const ExpertWeights& weights);

/// Writes the file, atomically. Throws InputError where the store cannot be read or the file not be written.
void write_whole_tensors(const ChunkStoreReader& store, const std::filesystem::path& file);

}  // namespace moelab
