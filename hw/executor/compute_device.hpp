// What joins tensors and computes with them: this machine's CPU (cpu_device.hpp), or a GPU. Each call is
// synchronous: a device with queues waits for the queue of the calling thread, which is one a resource.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hw/executor/buffer_pool.hpp"

namespace moelab {

/// One expert's joined tensors in the device's memory, BF16 and row-major: gate and up [width, hidden], down
/// [hidden, width]. Spans of a device's memory are for the device alone to look into.
struct ExpertOperands {
  std::span<const std::uint16_t> gate;  // empty where experts have 2 matrices
  std::span<const std::uint16_t> up, down;
};

/// Any number of threads call it at the same time, about different tensors.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;
  /// Where tensors lie; nullptr: in this machine's memory, as planes do. One thread.
  virtual MemorySource* memory() = 0;
  /// Copies out of the machine's memory: a whole tensor, or activations. Only where tensors lie elsewhere:
  /// else they are read to where they stay.
  virtual void load(std::span<const std::byte> from, std::span<std::uint16_t> to) = 0;
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
  /// A dense kernel's worth of memory traffic and arithmetic.
  virtual void dense(double bytes, double flops) = 0;
};

}  // namespace moelab
