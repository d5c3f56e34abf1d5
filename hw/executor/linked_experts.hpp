// What goes over the link of a discrete GPU: experts, which lie at the host's end, and the activations for
// those that are computed there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "hw/executor/buffer_pool.hpp"
#include "hw/executor/compute_device.hpp"
#include "hw/executor/expert_memory.hpp"
#include "hw/executor/host_experts.hpp"
#include "hw/io/aligned_memory.hpp"

namespace moelab {

/// The operands of one expert, of which `tensor_of(kind)` gives the tensors.
template <class TensorOf>
ExpertOperands operands_of(const ExpertWeights& weights, TensorOf tensor_of) {
  ExpertOperands operands;
  for (std::uint32_t kind = 0; kind < weights.kinds.size(); ++kind) {
    const std::string& name = weights.kinds[kind].name;
    (name == "gate" ? operands.gate : name == "up" ? operands.up : operands.down) = tensor_of(kind);
  }
  return operands;
}

class LinkedExperts {
 public:
  /// Everything by reference outlives it. `hidden`: values of a token. Throws std::invalid_argument where the
  /// GPU has no memory of its own.
  LinkedExperts(const HostExperts& experts, ComputeDevice& gpu, std::size_t hidden);
  ~LinkedExperts();
  LinkedExperts(const LinkedExperts&) = delete;
  LinkedExperts& operator=(const LinkedExperts&) = delete;

  /// Copies a tensor to where `memory` has taken it. Returns its bytes.
  std::uint64_t load(TensorPlace place, ExpertMemory& memory);
  /// Where it lies.
  std::span<const std::uint16_t> tensor(TensorPlace place) const { return experts_.tensor(place); }

  // The activations of so many tokens, one way and back. Room is made on the engine's thread, before either.
  void make_room(std::uint32_t tokens);
  void send(std::uint32_t tokens);
  void receive(std::uint32_t tokens);

 private:
  const HostExperts& experts_;
  ComputeDevice& gpu_;
  std::size_t hidden_;
  MemoryLedger ledger_{0};  // activations are not experts
  BufferPool pool_;
  Buffer on_gpu_;
  AlignedMemory on_host_;
  PinnedRange pinned_;  // of on_host_
};

}  // namespace moelab
