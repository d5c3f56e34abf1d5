// The timing model: an operation and its amount -> seconds, from a device profile.
//
// Measured curves win: reads, codecs, transfers over a link, recovery on the CPU, experts of a measured shape
// on the CPU. What was not measured is a roofline of what computes (the GPU; without one the CPU):
//   max(FLOPs / achievable peak, bytes / bandwidth of the memory it works in) + launches * launch cost
// Expert compute is charged by the distinct experts touched, each with its own tokens and its weights read
// once.
//
// A profile that carries what its software costs (DeviceProfile::software) is charged by that: projections,
// attention and experts each with their share of peak and bandwidth, the runtime's cost of a launch, and
// launches for all experts of a layer together where the runtime computes them so. It is what ServingEstimate
// charges, operation by operation.
#pragma once

#include <optional>

#include "models/architecture.hpp"
#include "models/device.hpp"

namespace moelab {

class TimingModel {
 public:
  explicit TimingModel(DeviceProfile device) : device_(std::move(device)) {}
  const DeviceProfile& device() const { return device_; }

  Seconds ssd_read(Bytes bytes) const { return Seconds(device_.ssd.read.value(bytes.value())); }
  Seconds page_cache_read(Bytes bytes) const { return Seconds(device_.page_cache.read.value(bytes.value())); }
  /// Decompression of a chunk of `plain` exponent bytes on one thread.
  Seconds decompress(const CodecProfile& codec, Bytes plain) const { return codec.decompress_seconds(plain); }
  /// Join of a tensor. On the GPU both planes are read and the BF16 values written, 4 bytes an element.
  Seconds recover(double elements) const;
  /// Of a step of so many tokens, whose hidden states are of `hidden` values.
  Seconds kernel(const Work& work, double tokens = 1, double hidden = 0) const;
  /// One routed expert for so many tokens of a step, where kernels run: on the GPU if there is one. `single`:
  /// the step has one token.
  Seconds expert(const Architecture& model, const FeedForward& ff, double tokens, bool single) const;
  Seconds expert(const Architecture& model, const FeedForward& ff, double tokens) const {
    return expert(model, ff, tokens, tokens == 1);
  }
  /// Launches that all experts of a layer share: a part of its dense time. 0 where each has its own.
  Seconds expert_launches(const Architecture& model, const FeedForward& ff, double tokens) const;
  /// The same on the CPU, beside a GPU or not: the curve of its shape, else the CPU's roofline. nullopt where
  /// the profile of a machine with a GPU has neither.
  std::optional<Seconds> cpu_expert(const Architecture& model, const FeedForward& ff, double tokens) const;
  // One transfer that has the link of a discrete GPU to itself; only where is_discrete().
  Seconds load(Bytes bytes) const;   // pinned host memory to the GPU's
  Seconds store(Bytes bytes) const;  // the GPU's to pinned host memory
  /// Host memory that is not pinned to the GPU's; nullopt where the profile does not say.
  std::optional<Seconds> load_pageable(Bytes bytes) const;
  /// The routed experts of a layer in one grouped kernel: `distinct` of them touched, each read once, by
  /// `activations` pairs of token and expert. On the CPU one after the other, where their shape was measured,
  /// each for as many tokens as in the mean.
  Seconds grouped_experts(const Architecture& model, double distinct, double activations) const;
  /// The same of some of a step's experts, which are all of the shape `ff`. `single`: the step has one token.
  Seconds grouped_experts(const Architecture& model, const FeedForward& ff, double distinct,
                          double activations, bool single) const;
  // Of a node of GPUs, and of weights that are streamed; only where the profile has them.
  /// Sums up `bytes` on each of `ranks` GPUs: between two measured numbers of GPUs, the larger one's.
  Seconds all_reduce(int ranks, Bytes bytes) const;
  /// Brings `each` bytes of each of `ranks` GPUs to all of them (all-gather), or sums up what all have for
  /// each of them (reduce-scatter): half of an all-reduce, which is the one behind the other (NCCL's ring).
  /// As long as the all-reduce that moves as much over each link, (ranks - 1) * each.
  Seconds exchange(int ranks, Bytes each) const { return all_reduce(ranks, ranks * each / 2); }
  /// `plain` bytes of weights decoded from the GPU's memory into it, with the GPU to itself: no faster than
  /// the memory takes compressed bytes out and plain ones in (of a stand-in that is in the rate).
  Seconds decode(const GpuCodecProfile& codec, Bytes plain) const;
  /// Address space of so many bytes backed by other physical memory; 0 where the profile does not say.
  Seconds remap(Bytes bytes) const;
  /// One kernel of the GPU. Precondition: there is one, and it is no stand-in.
  Seconds launch() const;
  /// Software's cost of leaving a layer's experts to the CPU, there and back; beside what moves their inputs.
  Seconds hand_over() const { return Seconds(device_.software ? device_.software->cpu_layer : 0); }
  /// Hand-off cost of one operation.
  Seconds dispatch() const { return device_.cpu.dispatch.value; }
  /// That of a copy over the link, of a decode and of a remapping: a GPU's engines have their own queues, the
  /// threads that play one are handed each.
  Seconds copy_hand_over() const { return copies_on_cpu() ? dispatch() : Seconds(0); }

  /// Who does it; decompression and reads are the CPU's always.
  bool recovers_on_cpu() const { return device_.cpu.recover.has_value(); }
  bool computes_on_cpu() const { return !device_.gpu || device_.gpu->stand_in; }
  /// Transfers over the link are the CPU's copies.
  bool copies_on_cpu() const { return device_.has_stand_in(); }
  bool is_discrete() const { return device_.is_discrete(); }
  /// Of the memory that the GPU computes from. Precondition: there is a GPU, and it is no stand-in.
  BytesPerSecond gpu_bandwidth() const;

 private:
  const LinkProfile& link() const;
  /// Of this shape on the CPU; nullptr: not measured.
  const CpuExperts* measured_experts(const Architecture& model, const FeedForward& ff) const;
  /// A step of several tokens has `rows` hidden states in each kernel.
  struct Rows {
    bool single;
    double rows, hidden;
  };
  Seconds kernel_of_software(const Work& work, const Rows& rows) const;
  Seconds launches_of_software(const Work& work, const Rows& rows) const;
  Seconds experts_of_software(const Work& work, double tokens_an_expert, bool single) const;

  DeviceProfile device_;
};

}  // namespace moelab
