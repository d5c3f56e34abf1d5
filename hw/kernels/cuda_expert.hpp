// An expert's feed-forward network by cuBLAS, in BF16 with sums in FP32.
#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hw/compute/expert_ffn.hpp"
#include "hw/kernels/cuda_memory.hpp"
#include "hw/kernels/cuda_stream.hpp"

namespace moelab {

/// Throws CudaError's like for cuBLAS: std::runtime_error "could not DOING: NAME".
void cublas_check(cublasStatus_t status, const char* doing);

/// Bound to one stream.
class CublasHandle {
 public:
  explicit CublasHandle(const CudaStream& stream);
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;
  ~CublasHandle();
  cublasHandle_t get() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
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
