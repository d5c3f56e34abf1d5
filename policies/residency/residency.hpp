// Residency family: how much GPU memory the stored experts may keep, step by step (FluxMoE, Liu et al.,
// section 4.3). alpha, the residency level, is the share of experts on storage backends that take GPU memory;
// the others are streamed from backends that take none, such as host memory.
//
// The serving loop asks once an iteration, before it, and lets the experts that moved pay for it. What moved
// is the difference of the split's rows: StorageSplit::gained, against a copy made before the call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"
#include "policies/storage/storage.hpp"

namespace moelab {

struct ResidencyState {
  std::uint64_t iteration = 0;  // ascending from call to call
  double compute_s = 0;         // tau_comp(theory): one iteration, all layers, weights resident
  double gpu_bytes = 0;         // C_gpu: for stored experts and KV cache together
  double kv_bytes = 0;          // C_kv, as it will be in this iteration; at most gpu_bytes
};

class ResidencyPolicy {
 public:
  virtual ~ResidencyPolicy() = default;
  /// Moves experts of `split` between backends; whether any moved. A policy serves splits of one shape. Costs
  /// O(layers * backends), where a step is tried O(experts of the step * backends) too, and allocates nothing
  /// once it has moved experts. Throws InputError for a state that cannot be (a time or size that is negative
  /// or not a number, more KV cache than GPU memory) and, where the policy keeps experts and KV cache within
  /// GPU memory, when the experts that would have to leave find no place off the GPU.
  virtual bool adjust(const ResidencyState& state, StorageSplit& split) = 0;
};

struct ResidencyPolicyEntry {
  PolicyInfo info;
  std::function<std::unique_ptr<ResidencyPolicy>(const PolicyParameters& parameters)> make;
};
/// The family's one table.
PolicyTable<ResidencyPolicyEntry>& residency_policies();
/// nullptr when there is no such policy.
const ResidencyPolicyEntry* find_residency_policy(std::string_view name);

}  // namespace moelab
