// Recovery: planes into BF16, the exponents plain, Huffman-coded or as fixed3.
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "hw/codec/fixed3.hpp"
#include "hw/codec/planes.hpp"
#include "hw/kernels/cuda_recover.hpp"
#include "hw/kernels/cuda_samples.hpp"

namespace moelab {

namespace {

/// A tensor and its planes; in GPU memory, in turns, the sign-mantissa plane and room for the tensor.
class RecoveryTiming : public CudaTiming {
 public:
  /// `more_bytes`: of each set, what the exponents take.
  RecoveryTiming(const std::vector<std::uint16_t>& weights, std::span<const std::byte> sign_mantissas,
                 std::size_t more_bytes)
      : weights_(weights),
        signs_(device_buffers(rotation(3 * weights.size() + more_bytes), sign_mantissas.size())),
        bf16_(device_buffers(signs_.size(), 2 * weights.size())) {
    if (weights.empty()) throw std::invalid_argument("recovery of 0 elements");
    for (const DeviceMemory& memory : signs_)
      stream_.copy(memory.data(), sign_mantissas.data(), memory.size());
    stream_.wait();
  }

  void check() override {
    status_.reset(stream_);
    stream_.fill(bf16_[0].data(), 0, bf16_[0].size());
    recover(0, target(0));
    status_.check(stream_, "decoding on the GPU");
    check_on_device(bf16_[0].data(), std::as_bytes(std::span(weights_)), stream_, "recovery on the GPU");
  }
  double run(std::size_t operations) override {
    return timer_.seconds(stream_, operations,
                          [&](std::size_t i) { recover(i % sets(), target(i % sets())); });
  }

 protected:
  std::size_t sets() const { return signs_.size(); }
  const CudaStream& stream() const { return stream_; }
  const DecodeStatus& status() const { return status_; }

 private:
  virtual void recover(std::size_t set, const kernels::JoinTarget& target) = 0;
  kernels::JoinTarget target(std::size_t set) const {
    return {signs_[set].data(), bf16_[set].as<std::uint16_t>()};
  }

  CudaStream stream_;
  std::vector<std::uint16_t> weights_;
  std::vector<DeviceMemory> signs_, bf16_;
  DecodeStatus status_;
  EventTimer timer_;
};

struct SplitTensor {
  explicit SplitTensor(std::size_t elements)
      : weights(normal_weights(elements, 0.02, elements)), exponents(elements), sign_mantissas(elements) {
    split_planes(weights, exponents, sign_mantissas);
  }
  std::vector<std::uint16_t> weights;
  std::vector<std::byte> exponents, sign_mantissas;
};

class PlainRecovery final : public RecoveryTiming {
 public:
  explicit PlainRecovery(const SplitTensor& tensor)
      : RecoveryTiming(tensor.weights, tensor.sign_mantissas, tensor.exponents.size()),
        exponents_(device_buffers(sets(), tensor.exponents.size())) {
    for (const DeviceMemory& memory : exponents_)
      stream().copy(memory.data(), tensor.exponents.data(), memory.size());
    stream().wait();
  }

 private:
  void recover(std::size_t set, const kernels::JoinTarget& target) override {
    const DeviceMemory& exponents = exponents_[set];
    cuda_recover({exponents.data(), target.sign_mantissas, target.bf16, exponents.size()}, stream().get());
  }
  std::vector<DeviceMemory> exponents_;
};

template <class Chunk>
class DecodingRecovery final : public RecoveryTiming {
 public:
  DecodingRecovery(const SplitTensor& tensor, std::span<const std::byte> stored)
      : RecoveryTiming(tensor.weights, tensor.sign_mantissas, stored.size()) {
    for (std::size_t i = 0; i < sets(); ++i) chunks_.emplace_back(stored, stream());
  }

 private:
  void recover(std::size_t set, const kernels::JoinTarget& target) override {
    chunks_[set].recover(target, status(), stream().get());
  }
  std::vector<Chunk> chunks_;
};

}  // namespace

std::unique_ptr<CudaTiming> recovery_timing(std::size_t elements) {
  return std::make_unique<PlainRecovery>(SplitTensor(elements));
}

std::unique_ptr<CudaTiming> huffman_recovery_timing(std::size_t elements, std::size_t segment_bytes) {
  const SplitTensor tensor(elements);
  return std::make_unique<DecodingRecovery<CudaHuffmanStream>>(
      tensor, huffman_encode(tensor.exponents, segment_bytes));
}

std::unique_ptr<CudaTiming> fixed3_recovery_timing(std::size_t elements) {
  const SplitTensor tensor(elements);
  const auto* const plane = reinterpret_cast<const std::uint8_t*>(tensor.exponents.data());
  return std::make_unique<DecodingRecovery<CudaFixed3Chunk>>(tensor, fixed3_encode({plane, elements}));
}

}  // namespace moelab
