// What the instances of a system came to (SystemConfig::instances).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moelab {

struct InstanceResult {
  std::string name;
  std::uint64_t requests = 0;  // that it served, or its part of
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;  // tokens that ran
  double most_kv_use = 0;  // the largest share of its KV cache's blocks in use in a step, with those that
                           // wait to be sent or to be filled
  double computed_s = 0;   // that its GPUs were busy with kernels, mean over them
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
};

}  // namespace moelab
