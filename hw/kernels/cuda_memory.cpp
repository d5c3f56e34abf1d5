#include "hw/kernels/cuda_memory.hpp"

#include <string>
#include <utility>

#include "hw/kernels/cuda_error.hpp"

namespace moelab {

namespace {

void check_allocation(cudaError_t code, std::size_t bytes, const char* where) {
  if (code == cudaSuccess) return;
  cuda_check(code, ("allocate " + std::to_string(bytes) + " bytes of " + where).c_str());
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* found = nullptr;
  check_allocation(cudaMalloc(&found, (bytes + 15) / 16 * 16), bytes, "GPU memory");
  data_ = static_cast<std::uint8_t*>(found);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

// A destructor cannot throw; what fails here failed before, in a kernel, and is reported by who waits for it.
DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

PinnedMemory::PinnedMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* found = nullptr;
  check_allocation(cudaHostAlloc(&found, bytes, cudaHostAllocMapped | cudaHostAllocPortable), bytes,
                   "pinned host memory");
  data_ = static_cast<std::byte*>(found);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
}

std::uint8_t* PinnedMemory::device_address() const {
  if (data_ == nullptr) return nullptr;
  void* found = nullptr;
  cuda_check(cudaHostGetDevicePointer(&found, data_, 0), "map pinned memory for the GPU");
  return static_cast<std::uint8_t*>(found);
}

}  // namespace moelab
