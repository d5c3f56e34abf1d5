// The GPU as a compute device against the CPU's: bit for bit where bits are moved.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "hw/codec/chunk.hpp"
#include "hw/codec/planes.hpp"
#include "hw/executor/cpu_device.hpp"
#include "hw/executor/cuda_compute_device.hpp"
#include "models/input_error.hpp"
#include "tests/hw/gpu_here.hpp"

namespace moelab::cuda_compute_device_test {
namespace {

/// A tensor in the device's memory.
struct OnDevice {
  OnDevice(ComputeDevice& on, std::size_t elements)
      : device(on), values{reinterpret_cast<std::uint16_t*>(on.memory()->make(2 * elements)), elements} {}
  ~OnDevice() { device.memory()->unmake(reinterpret_cast<std::byte*>(values.data())); }
  ComputeDevice& device;
  std::span<std::uint16_t> values;
};

}  // namespace

TEST_CASE("without a GPU there is no such device, and the reason is said") {
  if (cuda_missing().empty()) return;
  CHECK_THROWS_AS(make_cuda_compute_device({8, 8, 2}), InputError);
}

TEST_CASE("the GPU joins, loads and takes out every value as the CPU does") {
  if (!gpu_here()) return;
  const auto gpu = make_cuda_compute_device({8, 8, 2}, 1 << 20);
  for (const std::size_t elements : {std::size_t{1}, std::size_t{65536}, std::size_t{65536 + 13}}) {
    std::vector<std::uint16_t> tensor(elements);
    std::iota(tensor.begin(), tensor.end(), std::uint16_t{0});
    std::vector<std::byte> exponents(elements), signs(elements), found(elements);
    split_planes(tensor, exponents, signs);
    const OnDevice joined(*gpu, elements), loaded(*gpu, elements);
    gpu->recover(exponents, signs, joined.values);
    CHECK(gpu->checksum_of(joined.values) == checksum(std::span<const std::uint16_t>(tensor)));
    gpu->load(std::as_bytes(std::span(tensor)), loaded.values);
    CHECK(gpu->checksum_of(loaded.values) == checksum(std::span<const std::uint16_t>(tensor)));
    gpu->extract(loaded.values, found);
    CHECK((found == signs));
  }
}

TEST_CASE("the GPU computes experts of both kinds, and dense kernels of any size") {
  if (!gpu_here()) return;
  for (const int matrices : {2, 3}) {
    const ExpertShape shape{64, 48, matrices};
    const auto gpu = make_cuda_compute_device(shape, 1 << 16);
    const OnDevice gate(*gpu, 64 * 48), up(*gpu, 64 * 48), down(*gpu, 64 * 48);
    const std::vector<std::uint16_t> ones(64 * 48, 0x3F80);
    for (const OnDevice* tensor : {&gate, &up, &down})
      gpu->load(std::as_bytes(std::span(ones)), tensor->values);
    ExpertOperands operands{{}, up.values, down.values};
    if (matrices == 3) operands.gate = gate.values;
    for (const std::uint32_t tokens : {1U, 3U, 64U, 2U}) CHECK_NOTHROW(gpu->execute(operands, tokens));
    for (const double bytes : {0.0, 1.0, 5e3, 3e5}) CHECK_NOTHROW(gpu->dense(bytes, 4 * bytes, 7));
  }
}

}  // namespace moelab::cuda_compute_device_test
