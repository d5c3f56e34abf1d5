// Tests that need a GPU say so and end where there is none; CTest then reports them as skipped.
#pragma once

#include <catch2/catch.hpp>

#include "hw/kernels/cuda_device.hpp"

namespace moelab {

inline bool gpu_here() {
  const std::string missing = cuda_missing();
  if (!missing.empty()) WARN("skipped: no GPU: " << missing);
  return missing.empty();
}

}  // namespace moelab
