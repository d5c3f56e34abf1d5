#include "hw/executor/cuda_compute_device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <vector>

#include "hw/codec/chunk.hpp"
#include "hw/executor/cpu_device.hpp"
#include "hw/executor/cuda_paging.hpp"
#include "hw/executor/lease_pool.hpp"
#include "hw/io/reader.hpp"
#include "hw/kernels/cuda_device.hpp"
#include "hw/kernels/cuda_error.hpp"
#include "hw/kernels/cuda_expert.hpp"
#include "hw/kernels/cuda_probes.hpp"
#include "hw/kernels/cuda_recover.hpp"
#include "models/input_error.hpp"

namespace moelab {
namespace {

constexpr std::size_t kColumns = 2048;     // of dense kernels, as the CPU's
constexpr unsigned char kHalfByte = 0x3F;  // twice it is BF16's 0.747: as good an input as any

/// Memory that grows to what is asked for, and stays.
std::uint8_t* room(DeviceMemory& memory, std::size_t bytes) {
  if (memory.size() < bytes) {
    memory = {};  // first, so that both never exist
    memory = DeviceMemory(bytes);
  }
  return memory.data();
}

class GpuMemory final : public MemorySource {
 public:
  // The runtime aligns to 256 bytes: asked for more, the beginning is cut off.
  std::byte* make(std::size_t bytes) override {
    DeviceMemory memory(bytes + kReadAlignment);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    const std::uintptr_t aligned = (begin + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
    auto* const first = reinterpret_cast<std::byte*>(aligned);
    made_.emplace(first, std::move(memory));
    return first;
  }
  void unmake(std::byte* memory) override { made_.erase(memory); }

 private:
  std::map<std::byte*, DeviceMemory> made_;
};

/// What a call works with.
struct Lane {
  CudaStream stream;
  CublasHandle cublas{stream};
  DeviceMemory in, inner, up, out;
  std::vector<std::uint16_t> host;  // a tensor that comes back
};

class CudaComputeDevice final : public ComputeDevice, public PagingDevice {
 public:
  CudaComputeDevice(const ExpertShape& shape, std::uint64_t dense_bytes)
      : shape_(shape),
        dense_rows_(std::max<std::size_t>(1, dense_bytes / (2 * kColumns))),
        dense_(2 * kColumns * dense_rows_),
        lanes_([] { return std::make_unique<Lane>(); }),
        decodings_([] { return std::make_unique<CudaDecoding>(); }) {
    lanes_.fill(3);  // a join, an expert and a dense kernel at a time
    const auto lane = lanes_.lease();
    lane->stream.fill(dense_.data(), kHalfByte, dense_.size());
    lane->stream.wait();
  }

  MemorySource* memory() override { return &memory_; }
  PagingDevice* paging() override { return cuda_paging_missing().empty() ? this : nullptr; }

  void pin(std::span<std::byte> memory) override {
    cuda_check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault), "pin host memory");
  }
  void unpin(std::span<std::byte> memory) override {
    static_cast<void>(cudaHostUnregister(memory.data()));  // its owner is being destroyed
  }

  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override {
    const auto lane = lanes_.lease();
    lane->stream.copy(to.data(), from.data(), from.size());
    lane->stream.wait();
  }

  void load_all(std::span<const TensorCopy> copies) override {
    const auto lane = lanes_.lease();
    for (const TensorCopy& copy : copies)
      lane->stream.copy(copy.to.data(), copy.from.data(), copy.from.size());
    lane->stream.wait();
  }

  void store(std::span<const std::uint16_t> from, std::span<std::byte> to) override {
    const auto lane = lanes_.lease();
    lane->stream.copy(to.data(), from.data(), from.size_bytes());
    lane->stream.wait();
  }

  void recover(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
               std::span<std::uint16_t> tensor) override {
    const auto lane = lanes_.lease();
    const std::size_t second = (tensor.size() + 255) / 256 * 256;
    std::uint8_t* const planes = room(lane->in, 2 * second);
    lane->stream.copy(planes, exponents.data(), tensor.size());
    lane->stream.copy(planes + second, sign_mantissas.data(), tensor.size());
    cuda_recover({planes, planes + second, tensor.data(), tensor.size()}, lane->stream.get());
    lane->stream.wait();
  }

  std::uint64_t checksum_of(std::span<const std::uint16_t> tensor) override {
    const auto lane = lanes_.lease();
    return checksum(std::as_bytes(brought_back(*lane, tensor)));
  }

  void extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) override {
    const auto lane = lanes_.lease();
    extract_sign_mantissas(brought_back(*lane, tensor), sign_mantissas);
  }

  void execute(const ExpertOperands& expert, std::uint32_t tokens) override {
    const auto lane = lanes_.lease();
    compute(*lane, expert, tokens);
    lane->stream.wait();
  }

  std::size_t page_bytes() const override { return CudaPagedMemory::granularity(); }
  std::unique_ptr<PagedMemory> make_paged(std::size_t addresses,
                                          std::span<const std::size_t> pieces) override {
    return make_cuda_paged(addresses, pieces);
  }
  std::unique_ptr<CompressedTensor> keep(const StoredTensor& tensor, bool verify) override {
    return make_cuda_compressed(tensor, verify, decodings_);
  }
  void decode_all(std::span<const TensorDecoding> tensors) override { decode_on_cuda(tensors, decodings_); }
  void execute_all(std::span<const ExpertRun> experts) override {
    const auto lane = lanes_.lease();
    std::size_t tokens = 0;
    for (const ExpertRun& run : experts) tokens += run.tokens;
    const std::size_t outside = 2 * tokens * shape_.hidden, inside = 2 * tokens * shape_.width;
    if (lane->in.size() < outside) lane->stream.fill(room(lane->in, outside), kHalfByte, outside);
    std::uint8_t* const inner = room(lane->inner, inside);
    const bool gated = shape_.matrices == 3;
    std::uint8_t* const up = gated ? room(lane->up, inside) : nullptr;
    std::uint8_t* const out = room(lane->out, outside);
    std::vector<CublasProduct> into, back;
    std::size_t row = 0;
    for (const auto& [operands, rows] : experts) {
      const std::size_t hidden = 2 * row * shape_.hidden, width = 2 * row * shape_.width;
      const auto& first = gated ? operands.gate : operands.up;
      into.push_back(
          {first.data(), lane->in.data() + hidden, inner + width, shape_.width, rows, shape_.hidden});
      if (gated)
        into.push_back(
            {operands.up.data(), lane->in.data() + hidden, up + width, shape_.width, rows, shape_.hidden});
      back.push_back({operands.down.data(), inner + width, out + hidden, shape_.hidden, rows, shape_.width});
      row += rows;
    }
    lane->cublas.multiply_all(into);
    cuda_activate(reinterpret_cast<std::uint16_t*>(inner), reinterpret_cast<const std::uint16_t*>(up),
                  tokens * shape_.width, lane->stream.get());
    lane->cublas.multiply_all(back);
    lane->stream.wait();
  }
  std::uint64_t outcome_of(const ExpertOperands& expert, std::uint32_t tokens) override {
    const auto lane = lanes_.lease();
    compute(*lane, expert, tokens);
    return checksum(std::as_bytes(brought_back(
        *lane, {reinterpret_cast<const std::uint16_t*>(lane->out.data()), tokens * shape_.hidden})));
  }
  std::uint64_t outcome_of_host(const ExpertOperands& expert, std::uint32_t tokens) override {
    std::array<DeviceMemory, 3> copies;
    const auto lane = lanes_.lease();
    const auto copied = [&](DeviceMemory& to, std::span<const std::uint16_t> from) {
      to = DeviceMemory(from.size_bytes());
      lane->stream.copy(to.data(), from.data(), from.size_bytes());
      lane->stream.wait();
      return std::span<const std::uint16_t>(to.as<std::uint16_t>(), from.size());
    };
    return outcome_of(
        {copied(copies[0], expert.gate), copied(copies[1], expert.up), copied(copies[2], expert.down)},
        tokens);
  }

  // A weight of 2 bytes is 2 floating-point operations a token.
  void dense(double bytes, double flops, int kernels) override {
    if (bytes <= 0) return;
    const auto lane = lanes_.lease();
    const auto tokens = static_cast<std::size_t>(std::max(1.0, std::round(flops / bytes)));
    const std::size_t vectors = 2 * tokens * kColumns;
    if (lane->in.size() < vectors) lane->stream.fill(room(lane->in, vectors), kHalfByte, vectors);
    auto left = static_cast<std::size_t>(std::ceil(bytes / (2 * kColumns)));
    const auto launches = static_cast<std::size_t>(std::max(1, kernels));
    const std::size_t most = std::min(dense_rows_, (left + launches - 1) / launches);
    room(lane->out, 2 * tokens * most);
    while (left > 0) {
      const std::size_t first = next_row_.load() % dense_rows_;
      const std::size_t rows = std::min({left, dense_rows_ - first, most});
      lane->cublas.multiply(dense_.data() + 2 * kColumns * first, lane->in.data(), lane->out.data(), rows,
                            tokens, kColumns);
      next_row_ += rows;
      left -= rows;
    }
    lane->stream.wait();
  }

 private:
  /// Queues the whole network; what comes out is in lane.out.
  void compute(Lane& lane, const ExpertOperands& expert, std::uint32_t tokens) {
    const std::size_t outside = 2 * tokens * shape_.hidden, inside = 2 * tokens * shape_.width;
    if (lane.in.size() < outside) lane.stream.fill(room(lane.in, outside), kHalfByte, outside);
    auto* const inner = reinterpret_cast<std::uint16_t*>(room(lane.inner, inside));
    const bool gated = shape_.matrices == 3;
    const auto* const first = gated ? expert.gate.data() : expert.up.data();
    lane.cublas.multiply(first, lane.in.data(), inner, shape_.width, tokens, shape_.hidden);
    std::uint16_t* up = nullptr;
    if (gated) {
      up = reinterpret_cast<std::uint16_t*>(room(lane.up, inside));
      lane.cublas.multiply(expert.up.data(), lane.in.data(), up, shape_.width, tokens, shape_.hidden);
    }
    cuda_activate(inner, up, tokens * shape_.width, lane.stream.get());
    lane.cublas.multiply(expert.down.data(), inner, room(lane.out, outside), shape_.hidden, tokens,
                         shape_.width);
  }

  std::span<const std::uint16_t> brought_back(Lane& lane, std::span<const std::uint16_t> tensor) {
    lane.host.resize(tensor.size());
    lane.stream.copy(lane.host.data(), tensor.data(), tensor.size_bytes());
    lane.stream.wait();
    return lane.host;
  }

  ExpertShape shape_;
  std::size_t dense_rows_;
  DeviceMemory dense_;
  std::atomic<std::size_t> next_row_ = 0;
  GpuMemory memory_;
  LeasePool<Lane> lanes_;
  LeasePool<CudaDecoding> decodings_;
};

}  // namespace

std::unique_ptr<ComputeDevice> make_cuda_compute_device(const ExpertShape& shape, std::uint64_t dense_bytes) {
  if (const std::string missing = cuda_missing(); !missing.empty())
    throw InputError("GPU", "cannot be used: " + missing);
  return std::make_unique<CudaComputeDevice>(shape, dense_bytes);
}

}  // namespace moelab
