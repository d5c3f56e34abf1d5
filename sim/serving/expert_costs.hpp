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

/// With a discrete GPU tensors are stored whole in the host's memory.
struct ExpertCosts {
  std::uint32_t tensors = 0;  // matrices an expert
  double elements = 0;        // BF16 values a tensor
  double ratio = 1;           // compressed over plain exponent plane
  Bytes sm_bytes;  // of one tensor: the sign-mantissa plane, or the whole tensor when not compressed
  Bytes e_bytes;   // of one tensor: all compressed E-chunks; 0 when not compressed
  std::array<double, kStates> bytes{};  // of one expert in each state
  LayerInstance timing;      // L, K and the times of one operation when storage is cold; no experts
  ExpertReads cold, cached;  // reads from the SSD and from the page cache
  OpBytes traffic;
  double load_s() const { return timing.sm_read_s * tensors; }  // of a whole expert over the link
  double ssd_bytes_per_second = 0;                              // the fastest of the reads, its latency aside
};

ExpertCosts expert_costs(const Architecture& model, const TimingModel& timing, const SystemConfig& system);

}  // namespace moelab
