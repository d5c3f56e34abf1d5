// What lies in a GPU's memory of the experts that a windowed system stores there: whole tensors, which
// kernels read where they are, and the chunks of compressed ones, which it decodes into the window.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hw/executor/buffer_pool.hpp"
#include "hw/executor/compute_device.hpp"
#include "hw/executor/host_experts.hpp"
#include "hw/executor/paging_device.hpp"
#include "hw/store/chunk_store_reader.hpp"

namespace moelab {

class DeviceExperts {
 public:
  /// Everything by reference outlives it. `verify`: chunks are compared with their checksums
  /// (PagingDevice::keep). Throws std::invalid_argument for a device without memory of its own or paging.
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
  /// thread, one for each tensor. Throws InputError for damaged ones.
  struct Placed {
    TensorPlace place;
    std::span<std::uint16_t> into;
  };
  void decode_all(std::span<const Placed> tensors);

 private:
  struct Parts {
    Buffer tensor;
    std::unique_ptr<CompressedTensor> compressed;
  };
  [[noreturn]] void fail(TensorPlace place, const CodecError& error) const;
  const Parts& parts(TensorPlace place) const { return parts_[ordinal_of(weights_, place)]; }

  const ChunkStoreReader& store_;
  const ExpertWeights& weights_;
  ComputeDevice& gpu_;
  MemoryLedger& ledger_;
  bool verify_;
  std::uint64_t compressed_bytes_ = 0;  // of the ledger's
  BufferPool pool_;
  std::vector<Parts> parts_;  // by ordinal
};

}  // namespace moelab
