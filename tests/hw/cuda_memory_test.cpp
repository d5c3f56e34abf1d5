// Errors in words, with a GPU or without; memory, streams and events with one.
#include "hw/kernels/cuda_memory.hpp"

#include <utility>
#include <vector>

#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_stream.hpp"
#include "tests/hw/gpu_here.hpp"

namespace moelab::cuda_memory_test {
namespace {

TEST_CASE("a CUDA error says what was being done") {
  CHECK_NOTHROW(cuda_check(cudaSuccess, "do nothing"));
  try {
    cuda_check(cudaErrorMemoryAllocation, "allocate 3 bytes of GPU memory");
    FAIL("no error");
  } catch (const CudaError& error) {
    CHECK(error.code() == cudaErrorMemoryAllocation);
    CHECK(std::string(error.what()) ==
          "could not allocate 3 bytes of GPU memory: out of memory (cudaErrorMemoryAllocation)");
  }
}

TEST_CASE("without a GPU, what needs one throws, and what owns nothing is free") {
  CHECK(DeviceMemory().data() == nullptr);
  CHECK(DeviceMemory(0).size() == 0);
  CHECK(PinnedMemory(0).data() == nullptr);
  if (cuda_missing().empty()) return;
  CHECK_THROWS_AS(DeviceMemory(1), CudaError);
  CHECK_THROWS_AS(PinnedMemory(1), CudaError);
  CHECK_THROWS_AS(CudaStream(), CudaError);
  CHECK_THROWS_AS(CudaEvent(), CudaError);
  CHECK_THROWS_AS(cuda_device(), CudaError);
}

TEST_CASE("bytes go to the GPU and back, whichever object owns them") {
  if (!gpu_here()) return;
  const CudaStream stream;
  DeviceMemory first(1'000'003), second;
  PinnedMemory from(first.size()), to(first.size());
  for (std::size_t i = 0; i < from.size(); ++i) from.data()[i] = static_cast<std::byte>(i * 7 / 3);
  stream.copy(first.data(), from.data(), from.size());
  second = std::move(first);
  CHECK(first.data() == nullptr);  // NOLINT: what was moved owns nothing
  CHECK(reinterpret_cast<std::uintptr_t>(second.data()) % 256 == 0);
  stream.copy(to.data(), second.data(), to.size());
  stream.wait();
  CHECK(std::equal(from.bytes().begin(), from.bytes().end(), to.bytes().begin()));
}

TEST_CASE("more memory than there is is refused in words, and what follows works") {
  if (!gpu_here()) return;
  CHECK_THROWS_WITH(DeviceMemory(std::size_t{1} << 50),
                    Catch::Contains("could not allocate 1125899906842624 bytes of GPU memory"));
  CHECK_NOTHROW(DeviceMemory(1024));
}

TEST_CASE("events order streams and tell the time between them") {
  if (!gpu_here()) return;
  const CudaStream writer, reader;
  const DeviceMemory memory(64 << 20);
  std::vector<std::byte> found(memory.size());
  CudaEvent start, written;
  start.record(writer);
  for (unsigned char value = 0; value < 20; ++value) writer.fill(memory.data(), value, memory.size());
  written.record(writer);
  written.hold(reader);
  reader.copy(found.data(), memory.data(), found.size());
  reader.wait();
  CHECK(std::ranges::count(found, std::byte{19}) == static_cast<std::ptrdiff_t>(found.size()));
  CHECK(written.seconds_since(start) > 0);
}

}  // namespace
}  // namespace moelab::cuda_memory_test
