// Memory that CUDA allocates, owned. Sizes in bytes; a size of 0 owns nothing. All throw CudaError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moelab {

/// Memory of the GPU, aligned to 256 bytes and readable up to the next multiple of 16 after its end
/// (kernel_jobs.hpp).
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::size_t size() const { return bytes_; }
  std::uint8_t* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Host memory that copy engines reach without the driver's help, and kernels too, at device_address().
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::size_t size() const { return bytes_; }
  std::byte* data() const { return data_; }
  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  /// Where kernels see it.
  std::uint8_t* device_address() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace moelab
