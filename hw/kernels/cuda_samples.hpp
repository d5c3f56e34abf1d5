// How the timings of cuda_timings.hpp sample.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/kernels/cuda_probes.hpp"
#include "hw/kernels/cuda_stream.hpp"
#include "hw/kernels/cuda_timings.hpp"

namespace moelab {

/// Throws std::invalid_argument unless the numbers are in range.
void check_sampling(const CudaSampling& sampling);

/// How many sets of buffers of `bytes` an operation should take turns over: more than twice the L2 together,
/// 2 at least, and no more than half of the GPU's free memory allows (1 then). Throws CudaError where there
/// is no GPU.
std::size_t rotation(std::size_t bytes);

std::vector<DeviceMemory> device_buffers(std::size_t count, std::size_t bytes);

/// Throws WrongAnswer that says of what, and the first byte that differs.
void check_same(std::span<const std::byte> found, std::span<const std::byte> expected, const char* what);
/// The same for `expected.size()` bytes of GPU memory.
void check_on_device(const void* found, std::span<const std::byte> expected, const CudaStream& stream,
                     const char* what);

/// Bytes that repeat only after 2^64, drawn from the seed.
void fill_random(std::span<std::byte> bytes, std::uint64_t seed);

/// Normal BF16 weights of this deviation. From 2^20 on they repeat.
std::vector<std::uint16_t> normal_weights(std::size_t count, double deviation, std::uint64_t seed);

/// Samples by events: operation(i) queues the i-th operation, counted through.
template <class Operation>
Seconds sample_by_events(const CudaStream& stream, const CudaSampling& sampling, Operation operation) {
  check_sampling(sampling);
  StreamGate gate;
  CudaEvent start, stop;
  Seconds samples;
  for (std::size_t s = 0, i = 0; s < sampling.warm_up + sampling.samples; ++s) {
    gate.close(stream);
    start.record(stream);
    for (std::size_t r = 0; r < sampling.repeats; ++r) operation(i++);
    stop.record(stream);
    gate.open();
    stop.wait();
    if (s >= sampling.warm_up)
      samples.push_back(stop.seconds_since(start) / static_cast<double>(sampling.repeats));
  }
  return samples;
}

/// Samples by the host's clock: operation(i) returns when it is done.
template <class Operation>
Seconds sample_by_clock(const CudaSampling& sampling, Operation operation) {
  check_sampling(sampling);
  Seconds samples;
  for (std::size_t s = 0, i = 0; s < sampling.warm_up + sampling.samples; ++s) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t r = 0; r < sampling.repeats; ++r) operation(i++);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (s >= sampling.warm_up) samples.push_back(taken.count() / static_cast<double>(sampling.repeats));
  }
  return samples;
}

}  // namespace moelab
