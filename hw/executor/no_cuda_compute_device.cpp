// In a program without CUDA.
#include "hw/executor/cuda_compute_device.hpp"
#include "models/input_error.hpp"

namespace moelab {

std::unique_ptr<ComputeDevice> make_cuda_compute_device(const ExpertShape&, std::uint64_t) {
  throw InputError("GPU", "cannot be used: this program was built without CUDA");
}

}  // namespace moelab
