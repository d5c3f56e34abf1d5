// CUDA's error codes as exceptions that say what was being done.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace moelab {

/// "could not DO SOMETHING: out of memory (cudaErrorMemoryAllocation)".
class CudaError : public std::runtime_error {
 public:
  CudaError(const std::string& doing, cudaError_t code)
      : std::runtime_error("could not " + doing + ": " + cudaGetErrorString(code) + " (" +
                           cudaGetErrorName(code) + ")"),
        code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws CudaError unless `code` is success. `doing` follows "could not": "allocate 3 bytes on the GPU". The
/// runtime's own memory of the error is cleared, so that the next check does not find it again.
inline void cuda_check(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw CudaError(doing, code);
}

/// After a kernel launch, which returns no code of its own.
inline void cuda_check_launch(const char* doing) {
  cuda_check(cudaGetLastError(), doing);
}

}  // namespace moelab
