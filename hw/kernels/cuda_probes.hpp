// The small kernels that measurements need beside those that are measured.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "hw/kernels/cuda_memory.hpp"
#include "hw/kernels/cuda_stream.hpp"

namespace moelab {

/// Holds a stream back until all that is to be measured has been queued behind it, so that the time the host
/// takes for queueing is not measured. Between close() and open(), nothing that waits for the stream may be
/// called, pageable copies included. The stream goes on by itself after two seconds.
class StreamGate {
 public:
  StreamGate();
  StreamGate(const StreamGate&) = delete;
  StreamGate& operator=(const StreamGate&) = delete;
  ~StreamGate() { open(); }

  void close(const CudaStream& stream);
  void open();

 private:
  PinnedMemory word_;
  std::uint32_t* seen_by_gpu_;
};

/// Copies by a kernel, in 16-byte vectors; addresses and size are multiples of 16. Either side may be mapped
/// host memory.
void cuda_copy_by_kernel(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

/// A kernel of one thread that adds 1 to a counter: next to no work.
void cuda_count(std::uint32_t* counter, cudaStream_t stream);

/// Between the matrices of an expert, on `count` BF16 values: gate[i] = SiLU(gate[i]) * up[i], or
/// gate[i] = ReLU(gate[i]) where up is null.
void cuda_activate(std::uint16_t* gate, const std::uint16_t* up, std::size_t count, cudaStream_t stream);

}  // namespace moelab
