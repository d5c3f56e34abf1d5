// Pressure family: who gives way where experts and the KV cache want the same memory. Requests that come and
// go keep keys and values in blocks; what the blocks take, an expert cache does not have. Fewer blocks make
// requests wait, or give way to others; fewer experts there make steps load more of them.
//
// A policy is asked once, when memory is planned: for how many of the requests that may run at once the KV
// cache has room at their ends. Experts get what that leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

/// Vectors go by the number of requests, the first of one: the longest come first.
struct PressureTerms {
  /// KV cache of so many requests at their ends, ascending; one at least.
  std::vector<double> kv_bytes = {};
  /// A step in which each of them runs one row, its experts there.
  std::vector<double> step_s = {};
  /// Different experts that such a step uses, of all layers.
  std::vector<double> used = {};
  double room_bytes = 0;  // for KV cache and cached experts together
  double expert_bytes = 0;
  double experts = 0;  // of all layers
  double load_s = 0;   // of one expert that is not there
};

struct PressurePolicyEntry {
  PolicyInfo info;
  /// Whether it reads more of the terms than kv_bytes.
  bool needs_costs = false;
  /// At least 1, at most the length of kv_bytes. Throws InputError for parameters out of range.
  std::function<std::size_t(const PressureTerms& terms, const PolicyParameters& parameters)> requests;
};
/// The family's one table.
PolicyTable<PressurePolicyEntry>& pressure_policies();
/// nullptr when there is no such policy.
const PressurePolicyEntry* find_pressure_policy(std::string_view name);

}  // namespace moelab
