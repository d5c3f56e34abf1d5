#include "hw/kernels/cuda_samples.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "hw/kernels/cuda_device.hpp"
#include "traces/law/normal.hpp"
#include "traces/random.hpp"

namespace moelab {

std::vector<double> take_samples(CudaTiming& timing, const CudaSampling& sampling) {
  if (sampling.operations == 0) throw std::invalid_argument("0 operations a sample, expected 1 or more");
  timing.check();
  std::vector<double> samples;
  for (std::size_t s = 0; s < sampling.warm_up + sampling.samples; ++s) {
    const double seconds = timing.run(sampling.operations) / static_cast<double>(sampling.operations);
    if (s >= sampling.warm_up) samples.push_back(seconds);
  }
  return samples;
}

std::size_t rotation(std::size_t bytes) {
  const CudaDevice device = cuda_device();
  const std::size_t wanted =
      std::max<std::size_t>(2, 2 * device.l2_bytes / std::max<std::size_t>(1, bytes) + 1);
  const std::size_t fitting = device.free_bytes / 2 / std::max<std::size_t>(1, bytes);
  return std::max<std::size_t>(1, std::min({wanted, fitting, std::size_t{4096}}));
}

std::vector<DeviceMemory> device_buffers(std::size_t count, std::size_t bytes) {
  std::vector<DeviceMemory> buffers;
  for (std::size_t i = 0; i < count; ++i) buffers.emplace_back(bytes);
  return buffers;
}

void check_same(std::span<const std::byte> found, std::span<const std::byte> expected, const char* what) {
  const auto [at, other] = std::ranges::mismatch(found, expected);
  if (at == found.end() && other == expected.end()) return;
  throw WrongAnswer(std::string(what) + ": byte " + std::to_string(at - found.begin()) + " of " +
                    std::to_string(expected.size()) + " is not what it should be");
}

void check_on_device(const void* found, std::span<const std::byte> expected, const CudaStream& stream,
                     const char* what) {
  std::vector<std::byte> copy(expected.size());
  stream.copy(copy.data(), found, copy.size());
  stream.wait();
  check_same(copy, expected, what);
}

void fill_random(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
}

std::vector<std::uint16_t> normal_weights(std::size_t count, double deviation, std::uint64_t seed) {
  constexpr std::size_t period = std::size_t{1} << 20;
  const Normal& normal = Normal::instance();
  Random random(seed);
  std::vector<std::uint16_t> weights(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i < period ? deviation * normal.draw(random) : 0);
    weights[i] = i < period ? static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16)
                            : weights[i - period];
  }
  return weights;
}

}  // namespace moelab
