#include "hw/executor/cpu_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hw/codec/chunk.hpp"
#include "hw/codec/planes.hpp"

namespace moelab {

CpuDevice::CpuDevice(const ExpertShape& shape, std::uint64_t dense_bytes)
    : hidden_(shape.hidden),
      experts_([shape] { return std::make_unique<Expert>(shape); }),
      kernels_(
          [dense_bytes] { return std::make_unique<DenseKernel>(dense_bytes, DenseKernel::kUsualColumns); }) {
  // A serving loop runs one of each at a time; more are made when they are asked for.
  experts_.fill(1);
  kernels_.fill(1);
}

void CpuDevice::recover(std::span<const std::byte> exponents, std::span<const std::byte> sign_mantissas,
                        std::span<std::uint16_t> tensor) {
  join_planes(exponents, sign_mantissas, tensor);
}

std::uint64_t CpuDevice::checksum_of(std::span<const std::uint16_t> tensor) {
  return checksum(tensor);
}

void CpuDevice::load(std::span<const std::byte> from, std::span<std::uint16_t> to) {
  std::memcpy(to.data(), from.data(), std::min(from.size(), to.size_bytes()));
}

void CpuDevice::store(std::span<const std::uint16_t> from, std::span<std::byte> to) {
  std::memcpy(to.data(), from.data(), std::min(from.size_bytes(), to.size()));
}

void CpuDevice::extract(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) {
  extract_sign_mantissas(tensor, sign_mantissas);
}

void extract_sign_mantissas(std::span<const std::uint16_t> tensor, std::span<std::byte> sign_mantissas) {
  std::transform(tensor.begin(), tensor.end(), sign_mantissas.begin(), [](std::uint16_t value) {
    return static_cast<std::byte>((value >> 8 & 0x80) | (value & 0x7f));
  });
}

/// `use` is shown what comes out.
template <class Use>
void CpuDevice::compute(const ExpertOperands& expert, std::uint32_t tokens, Use use) {
  const auto scratch = experts_.lease();
  const std::size_t values = tokens * hidden_;
  if (scratch->in.size() < values) {
    scratch->in.assign(values, 0.5F);
    scratch->out.resize(values);
  }
  scratch->network.run({expert.gate, expert.up, expert.down}, std::span(scratch->in).first(values), tokens,
                       std::span(scratch->out).first(values));
  use(std::span<const float>(scratch->out).first(values));
}

void CpuDevice::execute(const ExpertOperands& expert, std::uint32_t tokens) {
  compute(expert, tokens, [](std::span<const float>) {});
}

std::uint64_t CpuDevice::outcome_of(const ExpertOperands& expert, std::uint32_t tokens) {
  std::uint64_t sum = 0;
  compute(expert, tokens, [&](std::span<const float> out) { sum = checksum(std::as_bytes(out)); });
  return sum;
}

// A weight of 2 bytes is 2 floating-point operations a token.
void CpuDevice::dense(double bytes, double flops, int) {
  if (bytes <= 0) return;
  const double tokens = std::max(1.0, std::round(flops / bytes));
  kernels_.lease()->run(static_cast<std::uint64_t>(bytes), static_cast<std::size_t>(tokens));
}

}  // namespace moelab
