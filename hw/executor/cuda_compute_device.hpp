// The GPU as what joins tensors and computes with them.
#pragma once

#include <cstdint>
#include <memory>

#include "hw/compute/expert_ffn.hpp"
#include "hw/executor/compute_device.hpp"

namespace moelab {

/// Tensors lie in the GPU's memory. A join copies both planes over and joins them there; experts and dense
/// kernels are matrix products of cuBLAS in BF16. Each call has a stream of its own and returns when its work
/// is done. Dense kernels go round `dense_bytes` of stand-in weights: more than the L2 holds.
/// Throws InputError in a program that was built without CUDA or where there is no GPU, CudaError and
/// std::runtime_error (cuBLAS) where the GPU refuses.
std::unique_ptr<ComputeDevice> make_cuda_compute_device(const ExpertShape& shape,
                                                        std::uint64_t dense_bytes = std::uint64_t{256} << 20);

}  // namespace moelab
