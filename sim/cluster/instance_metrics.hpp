// What the instances of a system came to (SystemConfig::instances).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/serving/metrics.hpp"

namespace moelab {

/// What an instance does.
enum class InstanceKind : std::uint8_t { colocated, prefill, decode };
std::string to_string(InstanceKind kind);

/// "decode0, the busiest of 3 instances".
std::string busiest_of_all(const std::string& name, std::size_t instances);

struct InstanceResult {
  std::string name;
  InstanceKind kind = InstanceKind::colocated;
  std::uint64_t requests = 0;  // that it served, or its part of
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;  // tokens that ran
  double most_kv_use = 0;  // the largest share of its KV cache's blocks in use in a step, with those that
                           // wait to be sent or to be filled
  double computed_s = 0;   // that its GPUs were busy with kernels, mean over them
  std::array<double, kCauses> stall_s{};  // its critical path, as Metrics::stall_s
  double served_s() const;                // that it had steps to run: the causes of stall_s together
};

/// KV caches from instance to instance.
struct TransferCounts {
  std::uint64_t transfers = 0;
  double bytes = 0;   // of one GPU of each pair of instances, all transfers together
  double wait_s = 0;  // from first tokens to when there were blocks for them, summed
  double send_s = 0;  // from then until all was there, summed
};

struct InstancesResult {
  std::vector<InstanceResult> servers;  // empty: the system has one instance
  std::uint32_t gpus = 0;               // of all of them
  TransferCounts transfers;

  /// Places of the busiest instance (with most served_s(); of equal ones the first) of each kind that there
  /// is, the busiest of all first. Empty where the system has one instance.
  std::vector<std::size_t> busiest() const;
  std::size_t count(InstanceKind kind) const;
  /// "decode0, the busiest of 3 instances" of the busiest of all; of another kind's "prefill1, the busiest of
  /// 2 that run prompts". Where there is no other to choose from, its name.
  std::string busiest_words(std::size_t place) const;
};

}  // namespace moelab
