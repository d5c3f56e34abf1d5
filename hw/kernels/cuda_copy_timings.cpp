// Copies: host to GPU, GPU to host, within the GPU.
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

void check_vectors(std::size_t bytes) {
  if (bytes == 0 || bytes % 16 != 0)
    throw std::invalid_argument("kernels copy multiples of 16 bytes, not " + std::to_string(bytes));
}

/// The two ends of a copy over the link. Host buffers are few: their reading is not what limits.
class LinkCopy {
 public:
  LinkCopy(std::size_t bytes, HostMemory memory) : bytes_(bytes), memory_(memory), device_(bytes) {
    if (memory == HostMemory::mapped) check_vectors(bytes);
    if (bytes == 0) throw std::invalid_argument("a copy of 0 bytes");
    if (memory == HostMemory::pageable) {
      pageable_.resize(bytes);
    } else {
      pinned_ = PinnedMemory(bytes);
    }
  }
  std::span<std::byte> host() {
    return memory_ == HostMemory::pageable ? std::span(pageable_) : pinned_.bytes();
  }
  const DeviceMemory& device() const { return device_; }
  const CudaStream& stream() const { return stream_; }

  /// Queues one copy; a pageable one is done when this returns.
  void copy(bool to_device) {
    if (memory_ == HostMemory::mapped) {
      std::uint8_t* const mapped = pinned_.device_address();
      cuda_copy_by_kernel(to_device ? device_.data() : mapped, to_device ? mapped : device_.data(), bytes_,
                          stream_.get());
    } else if (to_device) {
      stream_.copy(device_.data(), host().data(), bytes_);
    } else {
      stream_.copy(host().data(), device_.data(), bytes_);
    }
    if (memory_ == HostMemory::pageable) stream_.wait();
  }

  Seconds sample(bool to_device, const CudaSampling& sampling) {
    const auto once = [&](std::size_t) { copy(to_device); };
    return memory_ == HostMemory::pageable ? sample_by_clock(sampling, once)
                                           : sample_by_events(stream_, sampling, once);
  }

 private:
  std::size_t bytes_;
  HostMemory memory_;
  CudaStream stream_;
  DeviceMemory device_;
  PinnedMemory pinned_;
  std::vector<std::byte> pageable_;
};

}  // namespace

Seconds time_copy_to_device(std::size_t bytes, HostMemory memory, const CudaSampling& sampling) {
  LinkCopy link(bytes, memory);
  fill_random(link.host(), bytes);
  const std::vector<std::byte> expected(link.host().begin(), link.host().end());
  link.stream().fill(link.device().data(), 0, bytes);
  link.copy(true);
  check_on_device(link.device().data(), expected, link.stream(), "copy to the GPU");
  return link.sample(true, sampling);
}

Seconds time_copy_to_host(std::size_t bytes, HostMemory memory, const CudaSampling& sampling) {
  LinkCopy link(bytes, memory);
  std::vector<std::byte> expected(bytes);
  fill_random(expected, bytes);
  link.stream().copy(link.device().data(), expected.data(), bytes);
  link.copy(false);
  link.stream().wait();
  check_same(link.host(), expected, "copy to the host");
  return link.sample(false, sampling);
}

Seconds time_device_copy(std::size_t bytes, const CudaSampling& sampling) {
  const CudaStream stream;
  const std::size_t sets = rotation(2 * bytes);
  const auto from = device_buffers(sets, bytes), to = device_buffers(sets, bytes);
  std::vector<std::byte> expected(bytes);
  fill_random(expected, bytes);
  for (const DeviceMemory& source : from) stream.copy(source.data(), expected.data(), bytes);
  const auto copy = [&](std::size_t i) { stream.copy(to[i % sets].data(), from[i % sets].data(), bytes); };
  copy(0);
  check_on_device(to[0].data(), expected, stream, "copy within the GPU");
  return sample_by_events(stream, sampling, copy);
}

}  // namespace moelab
