// An expert's feed-forward network by cuBLAS, in BF16 with sums in FP32.
#pragma once

#include <cublas_v2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/compute/expert_ffn.hpp"
#include "hw/kernels/cuda_memory.hpp"
#include "hw/kernels/cuda_stream.hpp"

namespace moelab {

/// out[n, m] = in[n, k] * matrix[m, k]^T, all BF16 and row-major, summed in FP32.
struct CublasProduct {
  const void* matrix;
  const void* in;
  void* out;
  std::size_t m, n, k;
};

/// cuBLAS, bound to one stream. The library is loaded when the first is made, so that a program which
/// multiplies nothing starts without it, in less time and on machines that lack it. Throws std::runtime_error
/// where it cannot be loaded or started.
class CublasHandle {
 public:
  explicit CublasHandle(const CudaStream& stream);
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  ~CublasHandle();
  /// out[n, m] = in[n, k] * matrix[m, k]^T, all BF16 and row-major, summed in FP32.
  void multiply(const void* matrix, const void* in, void* out, std::size_t m, std::size_t n,
                std::size_t k) const;
  /// Many in one launch, as serving engines compute a layer's experts; where the library is older than 12.5,
  /// one after the other. Waits for the products of the last call but one.
  void multiply_all(std::span<const CublasProduct> products);

 private:
  /// Addresses of the products' operands, where the host writes and the GPU reads them. Two take turns, so
  /// that what is written is seldom still read.
  struct Addresses {
    PinnedMemory host;
    DeviceMemory gpu;
    CudaEvent read;
  };
  Addresses& next_addresses(std::size_t bytes);

  const CudaStream& stream_;
  cublasHandle_t handle_ = nullptr;
  std::array<Addresses, 2> addresses_;
  unsigned turn_ = 0;
};

/// One expert, in as many copies of its weights as exceed the L2. Weights are row-major as in checkpoints:
/// gate and up [width, hidden], down [hidden, width].
class CudaExpert {
 public:
  CudaExpert(const ExpertShape& shape, std::size_t tokens, const CudaStream& stream);

  /// Queues the whole network with the i-th copy of the weights.
  void run(std::size_t i);
  /// Runs once, waits and compares the first and the last token with sums in double precision. Throws
  /// WrongAnswer.
  void check();

 private:
  /// out[tokens, rows] = in[tokens, columns] * matrix[rows, columns]^T
  void multiply(const std::uint16_t* matrix, std::size_t rows, std::size_t columns, const DeviceMemory& in,
                const DeviceMemory& out) const;
  std::vector<double> expected(std::size_t token) const;

  ExpertShape shape_;
  std::size_t tokens_;
  const CudaStream& stream_;
  CublasHandle handle_;
  std::vector<std::uint16_t> host_weights_, host_input_;
  std::vector<DeviceMemory> weights_;
  DeviceMemory input_, gate_, up_, output_;
};

}  // namespace moelab
