// How much memory of its own the GPU has.
#pragma once

#include <cstdint>
#include <optional>

namespace moelab {

struct GpuMemoryFound {
  std::uint64_t total, available;  // bytes; available to this program beside what driver and context hold
};

/// nullopt without a GPU, and for one that shares the host's memory. In cuda_cases.cpp, or, without CUDA, in
/// no_cuda_cases.cpp.
std::optional<GpuMemoryFound> gpu_memory();

}  // namespace moelab
