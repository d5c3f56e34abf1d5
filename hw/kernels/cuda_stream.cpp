#include "hw/kernels/cuda_stream.hpp"

#include "hw/kernels/cuda_error.hpp"

namespace moelab {

CudaStream::CudaStream() {
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a CUDA stream");
}

CudaStream::~CudaStream() {
  static_cast<void>(cudaStreamDestroy(stream_));
}

void CudaStream::wait() const {
  cuda_check(cudaStreamSynchronize(stream_), "finish the work of a CUDA stream");
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copy to or from the GPU");
}

void CudaStream::fill(void* to, unsigned char value, std::size_t bytes) const {
  if (bytes == 0) return;
  cuda_check(cudaMemsetAsync(to, value, bytes, stream_), "fill GPU memory");
}

CudaEvent::CudaEvent() {
  cuda_check(cudaEventCreate(&event_), "make a CUDA event");
}

CudaEvent::~CudaEvent() {
  static_cast<void>(cudaEventDestroy(event_));
}

void CudaEvent::record(const CudaStream& stream) {
  cuda_check(cudaEventRecord(event_, stream.get()), "record a CUDA event");
}

void CudaEvent::wait() const {
  cuda_check(cudaEventSynchronize(event_), "wait for a CUDA event");
}

void CudaEvent::hold(const CudaStream& stream) const {
  cuda_check(cudaStreamWaitEvent(stream.get(), event_, 0), "make a CUDA stream wait");
}

double CudaEvent::seconds_since(const CudaEvent& start) const {
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "read a CUDA event's time");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace moelab
