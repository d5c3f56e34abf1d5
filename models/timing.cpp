#include "models/timing.hpp"

#include <algorithm>

namespace moelab {

Seconds TimingModel::recover(double elements) const {
  return Bytes(4 * elements) / device_.memory.bandwidth.value + device_.gpu.launch.value;
}

Seconds TimingModel::kernel(const Work& work) const {
  const Seconds arithmetic = work.flops / (device_.gpu.peak.value * device_.gpu.flops_efficiency.value);
  const Seconds traffic = (work.weight_bytes + work.kv_bytes) / device_.memory.bandwidth.value;
  return std::max(arithmetic, traffic) + device_.gpu.launch.value * work.kernels;
}

}  // namespace moelab
