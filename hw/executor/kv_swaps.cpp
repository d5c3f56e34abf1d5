#include "hw/executor/kv_swaps.hpp"

#include <cmath>
#include <span>
#include <stdexcept>
#include <string>

namespace moelab {
namespace {

/// Of a sum of blocks whose bytes are no whole ones.
constexpr double kRounding = 0.5;

/// A GPU's spans are of 2-byte values.
std::uint64_t even(std::uint64_t bytes) {
  return bytes + bytes % 2;
}

}  // namespace

KvSwaps::KvSwaps(ComputeDevice& gpu, const KvSwapRoom& room) : gpu_device_(gpu) {
  if (gpu.memory() == nullptr)
    throw std::invalid_argument("hardware: blocks of the KV cache are swapped out of a GPU's own memory");
  gpu_.bytes = even(room.gpu_bytes);
  host_.bytes = even(room.host_bytes);
  host_.data = host_memory_.make(host_.bytes);
  gpu_.data = gpu.memory()->make(gpu_.bytes);
  if (host_.bytes > 0) pinned_ = PinnedRange(gpu, {host_.data, host_.bytes});
}

KvSwaps::~KvSwaps() {
  gpu_device_.memory()->unmake(gpu_.data);
}

void KvSwaps::begin_out(double bytes) {
  const auto room = static_cast<double>(host_.bytes);
  if (bytes > static_cast<double>(gpu_.bytes) + kRounding || in_host_ + bytes > room + kRounding)
    throw std::logic_error("hardware: the host has no room for " + std::to_string(bytes) +
                           " bytes of the KV cache");
  in_host_ += bytes;
}

void KvSwaps::begin_in(double bytes) {
  if (bytes > in_host_ + kRounding)
    throw std::logic_error("hardware: the host does not hold " + std::to_string(bytes) +
                           " bytes of the KV cache");
  in_host_ -= bytes;
}

template <class Copy>
std::uint64_t KvSwaps::copy(double bytes, Copy one_piece) {
  const auto whole = static_cast<std::uint64_t>(std::llround(bytes));
  for (std::uint64_t left = even(whole); left > 0;) {
    const std::uint64_t together = host_.piece(gpu_.piece(left));
    one_piece(std::span(reinterpret_cast<std::uint16_t*>(gpu_.data + gpu_.at), together / 2),
              std::span(host_.data + host_.at, together));
    gpu_.pass(together);
    host_.pass(together);
    left -= together;
  }
  return whole;
}

void KvSwaps::out(double bytes) {
  bytes_out_ += copy(bytes, [this](std::span<std::uint16_t> gpu, std::span<std::byte> host) {
    gpu_device_.store(gpu, host);
  });
}

void KvSwaps::in(double bytes) {
  bytes_in_ += copy(bytes, [this](std::span<std::uint16_t> gpu, std::span<std::byte> host) {
    gpu_device_.load(host, gpu);
  });
}

}  // namespace moelab
