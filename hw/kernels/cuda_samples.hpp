// What the timings of cuda_timings.hpp share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/kernels/cuda_probes.hpp"
#include "hw/kernels/cuda_stream.hpp"
#include "hw/kernels/cuda_timings.hpp"

namespace moelab {

/// Operations that are queued behind a closed gate at most. A stream's queue holds about a thousand launches,
/// an expert has four; one more than fits would wait for the gate.
inline constexpr std::size_t kMaxQueued = 128;

/// How many sets of buffers of `bytes` an operation should take turns over: more than twice the L2 together,
/// 2 at least, and no more than half of the GPU's free memory allows (1 then).
std::size_t rotation(std::size_t bytes);
std::vector<DeviceMemory> device_buffers(std::size_t count, std::size_t bytes);

/// Throws WrongAnswer that says of what, and the first byte that differs.
void check_same(std::span<const std::byte> found, std::span<const std::byte> expected, const char* what);
/// The same for `expected.size()` bytes of GPU memory.
void check_on_device(const void* found, std::span<const std::byte> expected, const CudaStream& stream,
                     const char* what);

/// Random bytes, the same from the same seed.
void fill_random(std::span<std::byte> bytes, std::uint64_t seed);

/// Normal BF16 weights of this deviation. From 2^20 on they repeat.
std::vector<std::uint16_t> normal_weights(std::size_t count, double deviation, std::uint64_t seed);

/// Times what a stream does, by events.
class EventTimer {
 public:
  /// Seconds of `operations` calls of operation(i), which queues the i-th of all so far in `stream`.
  template <class Operation>
  double seconds(const CudaStream& stream, std::size_t operations, Operation operation) {
    double sum = 0;
    for (std::size_t left = operations; left > 0;) {
      const std::size_t queued = std::min(left, kMaxQueued);
      gate_.close(stream);
      start_.record(stream);
      for (std::size_t i = 0; i < queued; ++i) operation(done_++);
      stop_.record(stream);
      gate_.open();
      stop_.wait();
      sum += stop_.seconds_since(start_);
      left -= queued;
    }
    return sum;
  }

 private:
  StreamGate gate_;
  CudaEvent start_, stop_;
  std::size_t done_ = 0;
};

/// The host's clock.
class HostTimer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace moelab
