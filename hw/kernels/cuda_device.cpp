#include "hw/kernels/cuda_device.hpp"

#include "hw/kernels/cuda_error.hpp"

namespace moelab {

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::string cuda_missing() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaSuccess && devices > 0) return {};
  static_cast<void>(cudaGetLastError());
  return code == cudaSuccess ? "the driver lists no device" : cudaGetErrorString(code);
}

CudaDevice cuda_device() {
  int device = 0, driver = 0, runtime = 0;
  cuda_check(cudaGetDevice(&device), "ask for the current GPU");
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, device), "ask for the GPU's properties");
  cuda_check(cudaDriverGetVersion(&driver), "ask for the driver's version");
  cuda_check(cudaRuntimeGetVersion(&runtime), "ask for the runtime's version");
  CudaDevice found = {};
  found.name = properties.name;
  found.major = properties.major;
  found.minor = properties.minor;
  found.multiprocessors = properties.multiProcessorCount;
  found.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  found.integrated = properties.integrated != 0;
  found.driver = version_text(driver);
  found.runtime = version_text(runtime);
  cuda_check(cudaMemGetInfo(&found.free_bytes, &found.memory_bytes), "ask for the GPU's free memory");
  return found;
}

}  // namespace moelab
