// Sizes and times of one expert's parts under a system: what the policies plan with and the loop charges.
#pragma once

#include <array>
#include <cstdint>

#include "models/units.hpp"
#include "policies/compression_state.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/serving/layer_graph.hpp"

namespace moelab {

class TimingModel;
struct Architecture;
struct SystemConfig;

/// With a discrete GPU experts lie in the host's memory, whole or compressed, and come over the link. What
/// threads of the host decompress comes, and is kept, plain.
struct ExpertCosts {
  std::uint32_t tensors = 0;  // matrices an expert
  double elements = 0;        // BF16 values a tensor
  double ratio = 1;           // compressed over plain exponent plane, as read and kept
  Bytes sm_bytes;  // of one tensor: the sign-mantissa plane, or the whole tensor when not compressed
  Bytes e_bytes;   // of one tensor: all E-chunks, as read and kept; 0 when not compressed
  Bytes stored;    // of one expert, where it lies when nothing of it is kept
  Bytes e_stored;  // of one tensor: all E-chunks there
  PlanePath path = PlanePath::read_decode_join;
  std::array<double, kStates> bytes{};  // of one expert in each state
  LayerInstance timing;      // L, K and the times of one operation when storage is cold; no experts
  ExpertReads cold, cached;  // reads from the SSD and from the page cache
  HostReads host_reads;      // with a discrete GPU: of what its host's memory does not hold
  OpBytes traffic;
  /// Of a whole expert over the link.
  double load_s() const { return (timing.sm_read_s + timing.shards * timing.e_read_s) * tensors; }
  /// Of one expert in `state` until it can execute, with everything to itself, and its reads, its
  /// decompression and its joining beside each other: the longest of these. `from_ssd`: what a link brings
  /// is read from the SSD first.
  double supply_s(State state, bool from_ssd) const;
  double ssd_bytes_per_second = 0;  // the fastest of the reads, its latency aside
};

/// `model`: what one of `ranks` GPUs has of it; the host's threads decompress for all of them.
ExpertCosts expert_costs(const Architecture& model, const TimingModel& timing, const SystemConfig& system,
                         int ranks = 1);

}  // namespace moelab
