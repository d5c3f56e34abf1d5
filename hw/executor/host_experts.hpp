// All experts of a store as whole tensors in this machine's memory, where discrete GPUs take them from.
#pragma once

#include <cstdint>
#include <span>

#include "hw/executor/compute_device.hpp"
#include "hw/io/aligned_memory.hpp"
#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

class HostExperts {
 public:
  /// Reads and decodes the whole store, which outlives it. `gpu`: what takes experts from here, if anything
  /// does; the memory is pinned for it, which it outlives. Throws InputError where the store is damaged or
  /// there is less memory than that (std::bad_alloc where the system does not say).
  explicit HostExperts(const ChunkStoreReader& store, ComputeDevice* gpu = nullptr);

  std::span<const std::uint16_t> tensor(TensorPlace place) const;
  /// Of the tensors, without what alignment adds.
  std::uint64_t bytes() const { return 2 * weights_.weights(); }

 private:
  const ExpertWeights& weights_;
  AlignedMemory memory_;  // as whole_tensors.hpp lays them out
  PinnedRange pinned_;
};

}  // namespace moelab
