// CUDA streams and events, owned. All throw CudaError.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace moelab {

class CudaStream {
 public:
  CudaStream();  // does not wait for the default stream
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  cudaStream_t get() const { return stream_; }
  /// Returns when all that was given to it is done; throws what went wrong in it.
  void wait() const;
  /// Copies between any two of host and device, in the stream's order.
  void copy(void* to, const void* from, std::size_t bytes) const;
  void fill(void* to, unsigned char value, std::size_t bytes) const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream, with the time at which the GPU came to it.
class CudaEvent {
 public:
  CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  void record(const CudaStream& stream);
  void wait() const;
  /// Work given to `stream` from now on starts after this point of the other.
  void hold(const CudaStream& stream) const;
  /// Seconds from `start` to this one, both passed; the GPU counts in steps of 0.5 us.
  double seconds_since(const CudaEvent& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace moelab
