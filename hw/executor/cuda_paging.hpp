// What pages experts on a GPU with CUDA: pieces of its memory, and tensors that its kernels decode.
#pragma once

#include <memory>

#include "hw/executor/lease_pool.hpp"
#include "hw/executor/paging_device.hpp"
#include "hw/kernels/cuda_paged_memory.hpp"
#include "hw/kernels/cuda_recover.hpp"

namespace moelab {

/// What a thread decodes with.
struct CudaDecoding {
  CudaStream stream;
  DecodeStatus status;
};

// As PagingDevice's make_paged() and keep().
std::unique_ptr<PagedMemory> make_cuda_paged(std::size_t addresses, std::span<const std::size_t> pieces);
/// As PagingDevice's decode_all(), of tensors that make_cuda_compressed() made.
void decode_on_cuda(std::span<const TensorDecoding> tensors, LeasePool<CudaDecoding>& decodings);
/// Codecs huffman, fixed3 and none. `decodings` outlives it.
std::unique_ptr<CompressedTensor> make_cuda_compressed(const StoredTensor& tensor, bool verify,
                                                       LeasePool<CudaDecoding>& decodings);

}  // namespace moelab
