#include "hw/executor/linked_experts.hpp"

#include <stdexcept>

namespace moelab {
namespace {

MemorySource& memory_of(ComputeDevice& gpu) {
  if (gpu.memory() == nullptr)
    throw std::invalid_argument("hardware: a discrete GPU that has no memory of its own");
  return *gpu.memory();
}

}  // namespace

LinkedExperts::LinkedExperts(const HostExperts& experts, ComputeDevice& gpu, std::size_t hidden)
    : experts_(experts), gpu_(gpu), hidden_(hidden), pool_(memory_of(gpu), ledger_) {}

LinkedExperts::~LinkedExperts() {
  pool_.give(on_gpu_);
}

std::uint64_t LinkedExperts::load(TensorPlace place, ExpertMemory& memory) {
  const std::span<const std::byte> from = std::as_bytes(experts_.tensor(place));
  gpu_.load(from, memory.parts(place).tensor.as<std::uint16_t>());
  return from.size();
}

void LinkedExperts::make_room(std::uint32_t tokens) {
  const std::size_t bytes = 2 * hidden_ * tokens;
  if (on_gpu_.bytes < bytes) {
    pool_.give(on_gpu_);
    on_gpu_ = pool_.take(bytes);
  }
  if (on_host_.size() >= bytes) return;
  pinned_ = {};
  on_host_ = AlignedMemory(bytes);
  pinned_ = PinnedRange(gpu_, on_host_.bytes());
}

void LinkedExperts::send(std::uint32_t tokens) {
  gpu_.store(on_gpu_.as<const std::uint16_t>().first(tokens * hidden_),
             on_host_.bytes().first(2 * hidden_ * tokens));
}

void LinkedExperts::receive(std::uint32_t tokens) {
  gpu_.load(on_host_.bytes().first(2 * hidden_ * tokens),
            on_gpu_.as<std::uint16_t>().first(tokens * hidden_));
}

}  // namespace moelab
