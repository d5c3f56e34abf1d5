// Every timing once, small: that its answer is right, which it checks itself, before and after, and times
// that a GPU can have. Speeds are asserted only from above, by what no memory can do.
#include "hw/kernels/cuda_timings.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "hw/kernels/cuda_samples.hpp"
#include "tests/hw/gpu_here.hpp"

namespace moelab::cuda_timings_test {
namespace {

constexpr double kNoMemory = 50e12;  // bytes a second

/// Takes samples, more operations each than are queued at once.
void check_times(std::unique_ptr<CudaTiming> timing, double bytes) {
  const std::vector<double> samples = take_samples(*timing, {3, 1, kMaxQueued + 3});
  REQUIRE(samples.size() == 3);
  for (const double seconds : samples) {
    CHECK(seconds > bytes / kNoMemory);
    CHECK(seconds < 1);
  }
  CHECK_NOTHROW(timing->check());
}

/// Takes a second for each operation, and may be wrong.
class SlowTiming final : public CudaTiming {
 public:
  explicit SlowTiming(bool right) : right_(right) {}
  void check() override {
    if (!right_) throw WrongAnswer("wrong");
  }
  double run(std::size_t operations) override { return static_cast<double>(++runs * operations); }
  std::size_t runs = 0;

 private:
  bool right_;
};

TEST_CASE("samples are of one operation, after a warm-up, and of right answers only") {
  SlowTiming right(true), wrong(false);
  CHECK(take_samples(right, {3, 2, 7}) == std::vector<double>{3, 4, 5});
  CHECK_THROWS_AS(take_samples(right, {3, 2, 0}), std::invalid_argument);
  CHECK_THROWS_AS(take_samples(wrong, {3, 2, 7}), WrongAnswer);
  CHECK(wrong.runs == 0);
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
  for (const HostMemoryKind memory :
       {HostMemoryKind::pinned, HostMemoryKind::pageable, HostMemoryKind::mapped}) {
    for (const CopyDirection direction : {CopyDirection::to_device, CopyDirection::to_host}) {
      for (const std::size_t bytes : {std::size_t{4096}, std::size_t{3} << 20})
        check_times(link_copy_timing(bytes, memory, direction), static_cast<double>(bytes));
    }
  }
  CHECK_THROWS_AS(link_copy_timing(17, HostMemoryKind::mapped, CopyDirection::to_host),
                  std::invalid_argument);
  CHECK_THROWS_AS(link_copy_timing(0, HostMemoryKind::pinned, CopyDirection::to_host), std::invalid_argument);
}

TEST_CASE("copying within the GPU, recovery and decoding are right and timed") {
  if (!gpu_here()) return;
  constexpr std::size_t elements = 2'883'584;
  check_times(device_copy_timing(2 * elements), 4.0 * elements);
  check_times(recovery_timing(elements), 4.0 * elements);
  check_times(fixed3_recovery_timing(elements), 3.0 * elements);
  for (const std::size_t segment_bytes : {8, 16, 32, 64})
    check_times(huffman_recovery_timing(elements, segment_bytes), 3.0 * elements);
}

TEST_CASE("experts are right and timed") {
  if (!gpu_here()) return;
  for (const int matrices : {2, 3})
    for (const std::size_t tokens : {1, 2, 33, 256})
      check_times(cuda_expert_timing({512, 1408, matrices}, tokens), 2.0 * matrices * 512 * 1408);
  CHECK_THROWS_AS(cuda_expert_timing({512, 1408, 4}, 1), std::invalid_argument);
  CHECK_THROWS_AS(cuda_expert_timing({512, 1408, 2}, 0), std::invalid_argument);
}

TEST_CASE("launches, remapping and copies beside computing are right and timed") {
  if (!gpu_here()) return;
  check_times(launch_timing(LaunchEnd::queued), 0);
  check_times(launch_timing(LaunchEnd::completed), 0);
  if (remap_missing().empty()) {
    check_times(remap_timing(5 << 20, RemapStep::map), 0);
    check_times(remap_timing(5 << 20, RemapStep::unmap), 0);
  }
  const ExpertShape shape = {2048, 1408, 3};
  check_times(overlap_timing(OverlapPart::copy, 1 << 20, shape, 1), 1 << 20);
  check_times(overlap_timing(OverlapPart::expert, 1 << 20, shape, 1),
              2.0 * static_cast<double>(shape.weights()));
  CHECK_THROWS_AS(overlap_timing(OverlapPart::copy, std::size_t{1} << 30, {64, 64, 2}, 1),
                  std::invalid_argument);
}

}  // namespace
}  // namespace moelab::cuda_timings_test
