#include <cuda_bf16.h>

#include <algorithm>

#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_probes.hpp"

namespace moelab {

namespace {

constexpr unsigned kThreads = 256, kMostBlocks = 4096;

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void gate_kernel(const volatile std::uint32_t* open) {
  const unsigned long long start = nanoseconds();
  while (*open == 0 && nanoseconds() - start < 2'000'000'000ULL) {
  }
}

__global__ void __launch_bounds__(kThreads) copy_kernel(uint4* to, const uint4* from, std::size_t vectors) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < vectors; i += stride)
    to[i] = __ldcs(from + i);
}

__global__ void count_kernel(std::uint32_t* counter) {
  ++*counter;
}

__global__ void __launch_bounds__(kThreads)
    activate_kernel(__nv_bfloat16* gate, const __nv_bfloat16* up, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const float x = __bfloat162float(gate[i]);
    const float y = up == nullptr ? fmaxf(x, 0.0F) : x / (1.0F + __expf(-x)) * __bfloat162float(up[i]);
    gate[i] = __float2bfloat16(y);
  }
}

unsigned blocks_for(std::size_t work) {
  return static_cast<unsigned>(std::clamp<std::size_t>((work + kThreads - 1) / kThreads, 1, kMostBlocks));
}

}  // namespace

StreamGate::StreamGate()
    : word_(sizeof(std::uint32_t)), seen_by_gpu_(reinterpret_cast<std::uint32_t*>(word_.device_address())) {
  open();
}

void StreamGate::close(const CudaStream& stream) {
  *reinterpret_cast<volatile std::uint32_t*>(word_.data()) = 0;
  gate_kernel<<<1, 1, 0, stream.get()>>>(seen_by_gpu_);
  cuda_check_launch("launch the kernel that holds a stream back");
}

void StreamGate::open() {
  *reinterpret_cast<volatile std::uint32_t*>(word_.data()) = 1;
}

void cuda_copy_by_kernel(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  const std::size_t vectors = bytes / sizeof(uint4);
  copy_kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(static_cast<uint4*>(to),
                                                            static_cast<const uint4*>(from), vectors);
  cuda_check_launch("launch the copying kernel");
}

void cuda_count(std::uint32_t* counter, cudaStream_t stream) {
  count_kernel<<<1, 1, 0, stream>>>(counter);
  cuda_check_launch("launch the counting kernel");
}

void cuda_activate(std::uint16_t* gate, const std::uint16_t* up, std::size_t count, cudaStream_t stream) {
  activate_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      reinterpret_cast<__nv_bfloat16*>(gate), reinterpret_cast<const __nv_bfloat16*>(up), count);
  cuda_check_launch("launch the activation kernel");
}

}  // namespace moelab
