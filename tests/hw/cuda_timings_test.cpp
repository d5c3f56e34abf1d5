// Every timing once, small: that its answer is right, which it checks itself, that it returns what was asked
// for, and times that a GPU can have. Speeds are asserted only from above, by what no memory can do.
#include "hw/kernels/cuda_timings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "hw/kernels/cuda_samples.hpp"
#include "tests/hw/gpu_here.hpp"

namespace moelab {
namespace {

constexpr CudaSampling kFew = {3, 1, 2};
constexpr double kNoMemory = 50e12;  // bytes a second

void check_times(const Seconds& samples, double bytes) {
  REQUIRE(samples.size() == kFew.samples);
  for (const double seconds : samples) {
    CHECK(seconds > bytes / kNoMemory);
    CHECK(seconds < 1);
  }
}

TEST_CASE("a sampling out of range is refused, with a GPU or without") {
  CHECK_THROWS_AS(check_sampling({0, 0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(check_sampling({1, 0, 0}), std::invalid_argument);
  CHECK_THROWS_AS(check_sampling({1, 0, kMaxCudaRepeats + 1}), std::invalid_argument);
  CHECK_NOTHROW(check_sampling({1, 0, kMaxCudaRepeats}));
}

TEST_CASE("answers are compared byte for byte") {
  std::vector<std::byte> found(1000), expected(1000);
  CHECK_NOTHROW(check_same(found, expected, "zeros"));
  found[777] = std::byte{1};
  CHECK_THROWS_WITH(check_same(found, expected, "zeros"), "zeros: byte 777 of 1000 is not what it should be");
  found.resize(999);
  CHECK_THROWS_AS(check_same(found, expected, "zeros"), WrongAnswer);
}

TEST_CASE("random bytes fill all of any length, the same from the same seed") {
  for (std::size_t size = 0; size < 40; ++size) {
    std::vector<std::byte> some(size), same(size), most(size, std::byte{0xFF});
    fill_random(some, 5);
    fill_random(same, 5);
    fill_random(most, 5);  // nothing of what was there is left
    CHECK(some == same);
    CHECK(some == most);
  }
}

TEST_CASE("weights of a timing are normal") {
  const std::vector<std::uint16_t> weights = normal_weights(1'200'000, 0.02, 3);
  double squares = 0;
  for (const std::uint16_t weight : weights) {
    const auto value = static_cast<double>(std::bit_cast<float>(std::uint32_t{weight} << 16));
    squares += value * value;
  }
  // Cutting off the low 16 bits makes values smaller by 0.27 % on average.
  CHECK(std::sqrt(squares / 1.2e6) == Approx(0.02).epsilon(0.01));
  CHECK(weights[1 << 20] == weights[0]);
}

TEST_CASE("copies over the link are right and timed") {
  if (!gpu_here()) return;
  for (const HostMemory memory : {HostMemory::pinned, HostMemory::pageable, HostMemory::mapped}) {
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{3} << 20}) {
      check_times(time_copy_to_device(bytes, memory, kFew), static_cast<double>(bytes));
      check_times(time_copy_to_host(bytes, memory, kFew), static_cast<double>(bytes));
    }
  }
  CHECK_THROWS_AS(time_copy_to_device(17, HostMemory::mapped, kFew), std::invalid_argument);
  CHECK_THROWS_AS(time_copy_to_host(0, HostMemory::pinned, kFew), std::invalid_argument);
}

TEST_CASE("copying within the GPU, recovery and decoding are right and timed") {
  if (!gpu_here()) return;
  constexpr std::size_t elements = 2'883'584;
  check_times(time_device_copy(2 * elements, kFew), 4.0 * elements);
  check_times(time_recovery(elements, kFew), 4.0 * elements);
  check_times(time_fixed3_recovery(elements, kFew), 3.0 * elements);
  for (const std::size_t segment_bytes : {8, 16, 32, 64})
    check_times(time_huffman_recovery(elements, segment_bytes, kFew), 3.0 * elements);
}

TEST_CASE("experts are right and timed") {
  if (!gpu_here()) return;
  for (const unsigned matrices : {2, 3})
    for (const std::size_t tokens : {1, 2, 33, 256})
      check_times(time_expert({512, 1408, matrices}, tokens, kFew), 2.0 * matrices * 512 * 1408);
  CHECK_THROWS_AS(time_expert({512, 1408, 4}, 1, kFew), std::invalid_argument);
}

TEST_CASE("launches, remapping and copies beside computing are right and timed") {
  if (!gpu_here()) return;
  const LaunchTimes launches = time_kernel_launch(kFew);
  check_times(launches.queued, 0);
  check_times(launches.completed, 0);
  const RemapTimes remaps = time_remap(5 << 20, kFew);
  CHECK(remaps.bytes >= 5 << 20);
  check_times(remaps.mapped, 0);
  check_times(remaps.unmapped, 0);
  const OverlapTimes overlap = time_copy_while_computing(1 << 20, {2048, 1408, 3}, 1, kFew);
  for (const Seconds& samples : {overlap.copy_alone, overlap.copy_beside}) check_times(samples, 1 << 20);
  for (const Seconds& samples : {overlap.expert_alone, overlap.expert_beside})
    check_times(samples, 6.0 * 2048 * 1408);
  CHECK_THROWS_AS(time_copy_while_computing(std::size_t{1} << 30, {64, 64, 2}, 1, kFew),
                  std::invalid_argument);
}

}  // namespace
}  // namespace moelab
