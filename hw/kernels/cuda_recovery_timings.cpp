// Recovery: planes into BF16, the exponents plain, Huffman-coded or as fixed3.
#include <functional>
#include <memory>
#include <vector>

#include "hw/codec/fixed3.hpp"
#include "hw/codec/planes.hpp"
#include "hw/kernels/cuda_recover.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

/// A tensor whole and as its planes.
struct SplitTensor {
  explicit SplitTensor(std::size_t elements)
      : weights(normal_weights(elements, 0.02, elements)), exponents(elements), sign_mantissas(elements) {
    split_planes(weights, exponents, sign_mantissas);
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(weights)); }

  std::vector<std::uint16_t> weights;
  std::vector<std::byte> exponents, sign_mantissas;
};

/// The tensor's sign-mantissa plane and room for its weights, as often as the rotation asks.
class Targets {
 public:
  Targets(const SplitTensor& tensor, std::size_t sets, const CudaStream& stream)
      : signs_(device_buffers(sets, tensor.sign_mantissas.size())),
        bf16_(device_buffers(sets, tensor.bytes().size())) {
    for (const DeviceMemory& memory : signs_)
      stream.copy(memory.data(), tensor.sign_mantissas.data(), memory.size());
  }
  std::size_t sets() const { return signs_.size(); }
  kernels::JoinTarget target(std::size_t i) const {
    return {signs_[i % sets()].data(), bf16_[i % sets()].as<std::uint16_t>()};
  }

 private:
  std::vector<DeviceMemory> signs_, bf16_;
};

/// Times what every chunk type offers: recover(target, status, stream). The chunks are copies of one.
template <class Chunk>
Seconds time_decoding(const SplitTensor& tensor, std::span<const std::byte> stored, const char* what,
                      const CudaSampling& sampling) {
  const CudaStream stream;
  const Targets targets(tensor, rotation(stored.size() + 3 * tensor.exponents.size()), stream);
  std::vector<std::unique_ptr<Chunk>> chunks;
  while (chunks.size() < targets.sets()) chunks.push_back(std::make_unique<Chunk>(stored, stream));
  DecodeStatus status;
  status.reset(stream);
  const auto recover = [&](std::size_t i) {
    chunks[i % chunks.size()]->recover(targets.target(i), status, stream.get());
  };
  recover(0);
  status.check(stream, what);
  check_on_device(targets.target(0).bf16, tensor.bytes(), stream, what);
  Seconds samples = sample_by_events(stream, sampling, recover);
  status.check(stream, what);
  return samples;
}

}  // namespace

Seconds time_recovery(std::size_t elements, const CudaSampling& sampling) {
  const SplitTensor tensor(elements);
  const CudaStream stream;
  const Targets targets(tensor, rotation(4 * elements), stream);
  const std::vector<DeviceMemory> exponents = device_buffers(targets.sets(), elements);
  for (const DeviceMemory& memory : exponents) stream.copy(memory.data(), tensor.exponents.data(), elements);
  const auto recover = [&](std::size_t i) {
    const kernels::JoinTarget target = targets.target(i);
    cuda_recover({exponents[i % exponents.size()].data(), target.sign_mantissas, target.bf16, elements},
                 stream.get());
  };
  recover(0);
  check_on_device(targets.target(0).bf16, tensor.bytes(), stream, "recovery");
  return sample_by_events(stream, sampling, recover);
}

Seconds time_huffman_recovery(std::size_t elements, std::size_t segment_bytes, const CudaSampling& sampling) {
  const SplitTensor tensor(elements);
  return time_decoding<CudaHuffmanStream>(tensor, huffman_encode(tensor.exponents, segment_bytes),
                                          "Huffman decoding", sampling);
}

Seconds time_fixed3_recovery(std::size_t elements, const CudaSampling& sampling) {
  const SplitTensor tensor(elements);
  const auto* const plane = reinterpret_cast<const std::uint8_t*>(tensor.exponents.data());
  return time_decoding<CudaFixed3Chunk>(tensor, fixed3_encode({plane, elements}), "fixed3 decoding",
                                        sampling);
}

}  // namespace moelab
