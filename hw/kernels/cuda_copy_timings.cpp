// Copies: host to GPU, GPU to host, within the GPU.
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

/// Between one buffer of the host and one of the GPU.
class LinkCopy final : public CudaTiming {
 public:
  LinkCopy(std::size_t bytes, HostMemoryKind memory, CopyDirection direction)
      : memory_(memory), to_device_(direction == CopyDirection::to_device), device_(bytes), expected_(bytes) {
    if (bytes == 0) throw std::invalid_argument("a copy of 0 bytes");
    if (memory == HostMemoryKind::mapped && bytes % 16 != 0)
      throw std::invalid_argument("kernels copy multiples of 16 bytes, not " + std::to_string(bytes));
    if (memory == HostMemoryKind::pageable) {
      pageable_.resize(bytes);
    } else {
      pinned_ = PinnedMemory(bytes);
    }
    fill_random(expected_, bytes);
  }

  void check() override {
    if (to_device_) {
      std::ranges::copy(expected_, host().begin());
      stream_.fill(device_.data(), 0, device_.size());
      copy();
      check_on_device(device_.data(), expected_, stream_, "copy to the GPU");
    } else {
      std::ranges::fill(host(), std::byte{0});
      stream_.copy(device_.data(), expected_.data(), expected_.size());
      copy();
      stream_.wait();
      check_same(host(), expected_, "copy to the host");
    }
  }

  double run(std::size_t operations) override {
    if (memory_ != HostMemoryKind::pageable)
      return timer_.seconds(stream_, operations, [&](std::size_t) { copy(); });
    const HostTimer timer;
    for (std::size_t i = 0; i < operations; ++i) {
      copy();
      stream_.wait();
    }
    return timer.seconds();
  }

 private:
  std::span<std::byte> host() {
    return memory_ == HostMemoryKind::pageable ? std::span(pageable_) : pinned_.bytes();
  }
  void copy() {
    void *device = device_.data(), *host_end = host().data();
    if (memory_ == HostMemoryKind::mapped) {
      host_end = pinned_.device_address();
      cuda_copy_by_kernel(to_device_ ? device : host_end, to_device_ ? host_end : device, device_.size(),
                          stream_.get());
    } else {
      stream_.copy(to_device_ ? device : host_end, to_device_ ? host_end : device, device_.size());
    }
  }

  HostMemoryKind memory_;
  bool to_device_;
  CudaStream stream_;
  DeviceMemory device_;
  PinnedMemory pinned_;
  std::vector<std::byte> pageable_, expected_;
  EventTimer timer_;
};

class DeviceCopy final : public CudaTiming {
 public:
  explicit DeviceCopy(std::size_t bytes)
      : from_(device_buffers(rotation(2 * bytes), bytes)),
        to_(device_buffers(from_.size(), bytes)),
        expected_(bytes) {
    if (bytes == 0) throw std::invalid_argument("a copy of 0 bytes");
    fill_random(expected_, bytes);
    for (const DeviceMemory& source : from_) stream_.copy(source.data(), expected_.data(), bytes);
    stream_.wait();
  }

  void check() override {
    stream_.fill(to_[0].data(), 0, expected_.size());
    copy(0);
    check_on_device(to_[0].data(), expected_, stream_, "copy within the GPU");
  }
  double run(std::size_t operations) override {
    return timer_.seconds(stream_, operations, [&](std::size_t i) { copy(i); });
  }

 private:
  void copy(std::size_t i) {
    stream_.copy(to_[i % to_.size()].data(), from_[i % from_.size()].data(), expected_.size());
  }

  CudaStream stream_;
  std::vector<DeviceMemory> from_, to_;
  std::vector<std::byte> expected_;
  EventTimer timer_;
};

}  // namespace

std::unique_ptr<CudaTiming> link_copy_timing(std::size_t bytes, HostMemoryKind memory,
                                             CopyDirection direction) {
  return std::make_unique<LinkCopy>(bytes, memory, direction);
}

std::unique_ptr<CudaTiming> device_copy_timing(std::size_t bytes) {
  return std::make_unique<DeviceCopy>(bytes);
}

}  // namespace moelab
