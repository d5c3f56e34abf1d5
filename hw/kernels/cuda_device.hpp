// Whether there is a GPU, and what it is.
#pragma once

#include <cstddef>
#include <string>

namespace moelab {

struct CudaDevice {
  std::string name;
  int major, minor;  // compute capability
  int multiprocessors;
  std::size_t memory_bytes, free_bytes;
  std::size_t l2_bytes;
  bool integrated;              // shares the host's memory, as a Jetson does
  std::string driver, runtime;  // "13.0": what the driver supports, what this program was linked with
};

/// Why kernels cannot run here ("no CUDA-capable device is detected"); empty where they can.
std::string cuda_missing();

/// The current device. Throws CudaError where there is none.
CudaDevice cuda_device();

}  // namespace moelab
