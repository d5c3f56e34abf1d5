// The kernels on a GPU against the CPU: planes of every kind and tail, damaged chunks, streams.
#include "hw/kernels/cuda_recover.hpp"

#include <array>

#include "hw/codec/codec_error.hpp"
#include "hw/codec/fixed3.hpp"
#include "hw/kernels/cuda_error.hpp"
#include "tests/hw/gpu_here.hpp"
#include "tests/hw/kernel_runs.hpp"

namespace moelab::cuda_recover_test {
namespace {

constexpr std::size_t kFence = 64;  // weights before and after the output that must stay

/// GPU memory for a tensor: planes, and an output between fences.
class GpuTensor {
 public:
  GpuTensor(const std::vector<std::byte>& exponents, const std::vector<std::byte>& signs)
      : elements_(signs.size()),
        exponents_(exponents.size()),
        signs_(signs.size()),
        bf16_(2 * (elements_ + 2 * kFence)) {
    const std::vector<std::uint16_t> untouched(elements_ + 2 * kFence, kUntouched);
    stream_.copy(exponents_.data(), exponents.data(), exponents.size());
    stream_.copy(signs_.data(), signs.data(), signs.size());
    stream_.copy(bf16_.data(), untouched.data(), bf16_.size());
    stream_.wait();
  }
  const CudaStream& stream() const { return stream_; }
  kernels::JoinTarget target() const { return {signs_.data(), bf16_.as<std::uint16_t>() + kFence}; }
  kernels::RecoveryJob job() const { return {exponents_.data(), signs_.data(), target().bf16, elements_}; }
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> all(elements_ + 2 * kFence);
    stream_.copy(all.data(), bf16_.data(), bf16_.size());
    stream_.wait();
    const auto first = all.begin() + kFence, last = all.end() - kFence;
    REQUIRE(std::count(all.begin(), first, kUntouched) == kFence);
    REQUIRE(std::count(last, all.end(), kUntouched) == kFence);
    return {first, last};
  }

 private:
  std::size_t elements_;
  CudaStream stream_;
  DeviceMemory exponents_, signs_, bf16_;
};

TEST_CASE("the GPU recovers every BF16 value and every tail") {
  if (!gpu_here()) return;
  Random random(31);
  for (const std::size_t whole : {std::size_t{0}, std::size_t{65536}, std::size_t{1} << 22}) {
    for (std::size_t tail = 0; tail <= 64; ++tail) {
      std::vector<std::byte> exponents(whole + tail), signs(whole + tail);
      for (std::size_t i = 0; i < exponents.size(); ++i) {  // all pairs of bytes in each 65,536
        exponents[i] = static_cast<std::byte>(i >> 8);
        signs[i] = static_cast<std::byte>(i);
      }
      const GpuTensor tensor(exponents, signs);
      cuda_recover(tensor.job(), tensor.stream().get());
      INFO(whole + tail << " elements");
      REQUIRE((tensor.result() == joined(exponents, signs)));
    }
  }
}

TEST_CASE("the GPU recovers from addresses that vectors cannot take") {
  if (!gpu_here()) return;
  Random random(32);
  const std::vector<std::byte> exponents = sign_mantissas(10'000, random),
                               signs = sign_mantissas(10'000, random);
  for (const std::size_t shift : {1, 3, 8}) {
    const GpuTensor tensor(exponents, signs);
    kernels::RecoveryJob job = tensor.job();
    job.exponents += shift;
    job.sign_mantissas += shift;
    job.elements -= shift;
    cuda_recover(job, tensor.stream().get());
    std::vector<std::uint16_t> expected = joined(exponents, signs);
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(shift));
    expected.insert(expected.end(), shift, kUntouched);
    REQUIRE((tensor.result() == expected));
  }
}

/// Decodes on the GPU. Whether all was sound; where it was, the result is `expected`.
template <class Chunk>
bool decodes(const std::vector<std::byte>& stored, const std::vector<std::byte>& signs,
             const std::vector<std::uint16_t>& expected) {
  const GpuTensor tensor({}, signs);
  const Chunk chunk(stored, tensor.stream());
  REQUIRE(chunk.symbols() == signs.size());
  DecodeStatus status;
  status.reset(tensor.stream());
  chunk.recover(tensor.target(), status, tensor.stream().get());
  const std::vector<std::uint16_t> found = tensor.result();
  try {
    status.check(tensor.stream(), "test");
  } catch (const CodecError&) {
    return false;
  }
  REQUIRE((found == expected));
  return true;
}

std::vector<std::byte> fixed3(const std::vector<std::byte>& plane) {
  return fixed3_encode({reinterpret_cast<const std::uint8_t*>(plane.data()), plane.size()});
}

TEST_CASE("the GPU decodes every kind of plane") {
  if (!gpu_here()) return;
  Random random(33);
  std::vector<NamedPlane> planes = all_kinds_of_planes();
  planes.push_back({"a tensor", gaussian_plane(2'883'584, 34)});
  planes.push_back({"more blocks than a GPU holds", gaussian_plane(20'000'003, 35)});
  for (const NamedPlane& plane : planes) {
    INFO(plane.name);
    const std::vector<std::byte> signs = sign_mantissas(plane.bytes.size(), random);
    const std::vector<std::uint16_t> expected = joined(plane.bytes, signs);
    for (const std::size_t segment_bytes : {8, 16, 32, 64})
      CHECK(decodes<CudaHuffmanStream>(huffman_encode(plane.bytes, segment_bytes), signs, expected));
    CHECK(decodes<CudaFixed3Chunk>(fixed3(plane.bytes), signs, expected));
  }
  for (std::size_t tail = 0; tail <= 64; ++tail) {
    const std::vector<std::byte> plane = gaussian_plane(8192 + tail, tail),
                                 signs = sign_mantissas(plane.size(), random);
    const std::vector<std::uint16_t> expected = joined(plane, signs);
    CHECK(decodes<CudaHuffmanStream>(huffman_encode(plane, 16), signs, expected));
    CHECK(decodes<CudaFixed3Chunk>(fixed3(plane), signs, expected));
  }
}

TEST_CASE("the GPU refuses the damaged chunks that the same code refuses on the CPU") {
  if (!gpu_here()) return;
  Random random(36);
  const std::vector<std::byte> plane = gaussian_plane(60'000, 37),
                               signs = sign_mantissas(plane.size(), random);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> stored = round % 2 == 0 ? huffman_encode(plane, 16) : fixed3(plane);
    stored[random.below(stored.size())] ^= static_cast<std::byte>(1U << random.below(8));
    Recovered on_cpu;
    try {
      on_cpu = round % 2 == 0 ? run_huffman(stored, signs, 0, random) : *run_fixed3(stored, signs, random);
    } catch (const CodecError&) {
      continue;  // does not parse
    }
    if (on_cpu.bf16.size() != signs.size()) continue;
    const bool sound = round % 2 == 0 ? decodes<CudaHuffmanStream>(stored, signs, on_cpu.bf16)
                                      : decodes<CudaFixed3Chunk>(stored, signs, on_cpu.bf16);
    REQUIRE(sound == on_cpu.sound);
    refused += !sound;
  }
  CHECK(refused > 10);
}

TEST_CASE("decoders on the GPU want aligned planes, and say so") {
  if (!gpu_here()) return;
  Random random(38);
  const std::vector<std::byte> plane = gaussian_plane(1000, 39), signs = sign_mantissas(1000, random);
  const GpuTensor tensor({}, signs);
  const CudaHuffmanStream chunk(huffman_encode(plane, 16), tensor.stream());
  const DecodeStatus status;
  const kernels::JoinTarget odd = {tensor.target().sign_mantissas, tensor.target().bf16 + 1};
  CHECK_THROWS_AS(chunk.recover(odd, status, tensor.stream().get()), std::invalid_argument);
}

}  // namespace
}  // namespace moelab::cuda_recover_test
