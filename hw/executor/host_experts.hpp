// All experts of a store as whole tensors in this machine's memory, where discrete GPUs take them from.
#pragma once

#include <cstdint>
#include <span>

#include "hw/io/aligned_memory.hpp"
#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

class HostExperts {
 public:
  /// Reads and decodes the whole store, which outlives it. Throws InputError where it is damaged or there is
  /// less memory than that (std::bad_alloc where nobody can say).
  explicit HostExperts(const ChunkStoreReader& store);

  std::span<const std::uint16_t> tensor(TensorPlace place) const;
  /// Of the tensors, without what alignment adds.
  std::uint64_t bytes() const { return 2 * weights_.weights(); }

 private:
  const ExpertWeights& weights_;
  AlignedMemory memory_;  // as whole_tensors.hpp lays them out
};

}  // namespace moelab
