// What lies in a GPU's memory of the experts that a windowed system stores there: whole tensors, which
// kernels read where they are, and the chunks of compressed ones, which it decodes into the window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hw/executor/buffer_pool.hpp"
#include "hw/executor/compute_device.hpp"
#include "hw/executor/host_experts.hpp"
#include "hw/executor/lease_pool.hpp"
#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

class DeviceExperts {
 public:
  /// Everything by reference outlives it. The GPU's memory is such that the CPU reads and writes it
  /// (stand_in_device.hpp); `verify`: chunks are compared with their checksums as they are decoded.
  DeviceExperts(const ChunkStoreReader& store, ComputeDevice& gpu, MemoryLedger& ledger, bool verify);
  ~DeviceExperts();
  DeviceExperts(const DeviceExperts&) = delete;
  DeviceExperts& operator=(const DeviceExperts&) = delete;

  // Before anything runs. Throw as BufferPool::take and reading the store do.
  void keep_whole(TensorPlace place, const HostExperts& host);
  void keep_chunks(TensorPlace place);

  /// Of an expert that is kept whole.
  std::span<const std::uint16_t> tensor(TensorPlace place) const;
  /// Decodes the chunks that are kept of a tensor and joins them with their signs and mantissas. On any
  /// thread. Throws InputError for damaged ones.
  void decode(TensorPlace place, std::span<std::uint16_t> into);

 private:
  struct Parts {
    Buffer tensor;
    std::vector<Buffer> chunks;  // K E-chunks, then the SM-chunk
  };
  struct Scratch {
    Scratch(bool verify, std::size_t plane);
    ChunkDecoder decoder;
    AlignedMemory exponents;
  };
  const Parts& parts(TensorPlace place) const { return parts_[ordinal_of(weights_, place)]; }
  void check_sign_mantissas(TensorPlace place, const Buffer& chunk) const;

  const ChunkStoreReader& store_;
  const ExpertWeights& weights_;
  ComputeDevice& gpu_;
  bool verify_;
  BufferPool pool_;
  std::vector<Parts> parts_;  // by ordinal
  LeasePool<Scratch> scratch_;
};

}  // namespace moelab
