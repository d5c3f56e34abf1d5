// Planning family: sizes of cache pools, computed before a run from statistics of past runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/compression_state.hpp"
#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

/// ZipMoE Alg. 4's input, for one sparse layer. Times are seconds an operation, as in
/// policies/schedule/schedule.hpp.
struct PlanInput {
  std::vector<double>
      inclusion;        // f_r: probability that the expert of popularity rank r is used in a step; sums to k
  std::uint32_t k = 1;  // experts used in a step
  std::uint32_t threads = 1;   // L
  std::uint32_t shards = 1;    // K
  std::uint32_t tensors = 3;   // n, tensors an expert
  double sm_read_s = 0;        // u
  double e_read_s = 0;         // v
  double decompress_s = 0;     // c
  double memory_bytes = 0;     // for this layer's pools
  double tensor_elements = 0;  // weights of one tensor; a byte each in either plane
  double tensor_bytes = 0;     // of one tensor whole, in its weights' format: BF16 takes 2 a weight
  double ratio = 1;            // rho: compressed size over plain size of an exponent plane
  double step = 0.05;          // delta: grid of memory shares
  std::array<bool, kStates> pools = {true, true, true, true, false};  // which of F, C, S, E may be used
  std::array<double, kStates> fixed_ratios{};  // for the fixed plan: shares of memory, sum 1
};

struct Plan {
  std::array<double, kStates> ratios{};  // share of memory of each pool; sums to 1 over the pools used
  std::array<std::uint32_t, kStates> capacity{};  // experts each pool holds, clipped to the experts there are
  double expected_makespan_s = 0;                 // of a layer's loading, execution not counted (Alg. 3)
  std::vector<double> selection_probability;      // q_r (App. D); empty for plans that need none
  std::uint64_t splits_examined = 0;              // grid points whose cost was computed, after pruning
};

/// Bytes one expert takes in a state. Of each tensor of e weights: F `tensor_bytes`, C (1 + rho)e, S e, E rho
/// e, M none.
double expert_bytes_in_state(State state, const PlanInput& input);

struct PlanningPolicyEntry {
  PolicyInfo info;
  std::function<Plan(const PlanInput& input)> plan;  // input checked by check_plan_input beforehand
};
/// The family's one table.
PolicyTable<PlanningPolicyEntry>& planning_policies();
const PlanningPolicyEntry* find_planning_policy(std::string_view name);

/// Empty when the input is usable, else a sentence: probabilities outside [0, 1], sum other than k by more
/// than 1e-6, k above the number of experts, no pools, step outside (0, 1], non-finite or negative times,
/// memory or sizes.
std::string check_plan_input(const PlanInput& input);

}  // namespace moelab
