// What joins tensors and computes with them: this machine's CPU (cpu_device.hpp), or a GPU. Each call is
// synchronous: a device with queues waits for the queue of the calling thread, which is one a resource.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "hw/executor/buffer_pool.hpp"

namespace moelab {

/// One expert's joined tensors in the device's memory, BF16 and row-major: gate and up [width, hidden], down
/// [hidden, width]. Spans of a device's memory are for the device alone to look into.
struct ExpertOperands {
  std::span<const std::uint16_t> gate;  // empty where experts have 2 matrices
  std::span<const std::uint16_t> up, down;
};

/// A tensor on its way to the device.
struct TensorCopy {
  std::span<const std::byte> from;
  std::span<std::uint16_t> to;
};

class PagingDevice;  // paging_device.hpp

/// Any number of threads call it at the same time, about different tensors.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  /// Where tensors lie; nullptr: in this machine's memory, as planes do. One thread.
  virtual MemorySource* memory() = 0;
  /// What pages experts on it; nullptr: nothing does.
  virtual PagingDevice* paging() { return nullptr; }
  /// From now until unpin(), copies between this memory of the machine's and the device run at the link's
  /// full speed. Nothing to do where there is no link.
  virtual void pin(std::span<std::byte>) {}
  virtual void unpin(std::span<std::byte>) {}
  /// Copies out of the machine's memory: a whole tensor, or activations. Only where tensors lie elsewhere:
  /// else they are read to where they stay.
  virtual void load(std::span<const std::byte> from, std::span<std::uint16_t> to) = 0;
  /// Many one after the other, waited for once.
  virtual void load_all(std::span<const TensorCopy> copies) {
    for (const TensorCopy& copy : copies) load(copy.from, copy.to);
  }
  /// Copies the other way.
  virtual void store(std::span<const std::uint16_t> from, std::span<std::byte> to) = 0;
  /// Joins a tensor's planes, which are in the machine's memory.
  virtual void recover(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
                       std::span<std::uint16_t> tensor) = 0;
  /// As chunk.hpp's checksum.
  virtual std::uint64_t checksum_of(std::span<const std::uint16_t> tensor) = 0;
  /// Takes the sign-mantissa plane out of a joined tensor, into the machine's memory.
  virtual void extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) = 0;
  /// Computes the expert for so many tokens. What comes out is not used.
  virtual void execute(const ExpertOperands& expert, std::uint32_t tokens) = 0;
  /// Memory traffic and arithmetic of dense kernels. A GPU launches as many; the CPU computes all as one, for
  /// what beginning one costs is measured so (hw/calibrate: cpu.dense_launch).
  virtual void dense(double bytes, double flops, int kernels) = 0;
};

/// Memory of this machine that a device's copies reach at the link's full speed while the object lives.
/// Device and memory outlive it.
class PinnedRange {
 public:
  PinnedRange() = default;
  PinnedRange(ComputeDevice& device, std::span<std::byte> memory) : device_(&device), memory_(memory) {
    if (!memory_.empty()) device_->pin(memory_);
  }
  PinnedRange(PinnedRange&& other) noexcept
      : device_(other.device_), memory_(std::exchange(other.memory_, {})) {}
  PinnedRange& operator=(PinnedRange&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~PinnedRange() {
    if (!memory_.empty()) device_->unpin(memory_);
  }

 private:
  ComputeDevice* device_ = nullptr;
  std::span<std::byte> memory_;
};

}  // namespace moelab
