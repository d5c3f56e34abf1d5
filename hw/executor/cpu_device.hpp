// The CPU as the device that joins and computes, each operation on the core of the thread that asks.
#pragma once

#include <memory>

#include "hw/compute/dense_kernel.hpp"
#include "hw/compute/expert_ffn.hpp"
#include "hw/executor/compute_device.hpp"
#include "hw/executor/lease_pool.hpp"
#include "hw/executor/paging_device.hpp"

namespace moelab {

/// The sign-mantissa plane of a tensor in this machine's memory.
void extract_sign_mantissas(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas);

class CpuDevice : public ComputeDevice, public PagingDevice {
 public:
  /// Dense kernels stream over `dense_bytes` of stand-in weights, for each that runs at the same time: more
  /// than the caches hold, or it is the caches that are measured. Throws std::invalid_argument where the
  /// shape is none (ExpertFfn), std::bad_alloc.
  explicit CpuDevice(const ExpertShape& shape, std::uint64_t dense_bytes = std::uint64_t{256} << 20);

  MemorySource* memory() override { return nullptr; }
  void load(std::span<const std::byte> from, std::span<std::uint16_t> to) override;
  void store(std::span<const std::uint16_t> from, std::span<std::byte> to) override;
  void recover(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
               std::span<std::uint16_t> tensor) override;
  std::uint64_t checksum_of(std::span<const std::uint16_t> tensor) override;
  void extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) override;
  void execute(const ExpertOperands& expert, std::uint32_t tokens) override;
  void dense(double bytes, double flops, int kernels) override;

  // Its pages are the process's (RemappedMemory).
  PagingDevice* paging() override { return this; }
  std::size_t page_bytes() const override;
  std::unique_ptr<PagedMemory> make_paged(std::size_t addresses,
                                          std::span<const std::size_t> pieces) override;
  std::unique_ptr<CompressedTensor> keep(const StoredTensor& tensor, bool verify) override;
  void decode_all(std::span<const TensorDecoding> tensors) override;
  void execute_all(std::span<const ExpertRun> experts) override;
  std::uint64_t outcome_of(const ExpertOperands& expert, std::uint32_t tokens) override;
  std::uint64_t outcome_of_host(const ExpertOperands& expert, std::uint32_t tokens) override {
    return outcome_of(expert, tokens);
  }

 private:
  struct Expert {
    explicit Expert(const ExpertShape& shape) : network(shape) {}
    ExpertFfn network;
    std::vector<float> in, out;  // [tokens, hidden]
  };

  template <class Use>
  void compute(const ExpertOperands& expert, std::uint32_t tokens, Use use);

  std::size_t hidden_;
  LeasePool<Expert> experts_;
  LeasePool<DenseKernel> kernels_;
};

}  // namespace moelab
