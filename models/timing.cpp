#include "models/timing.hpp"

#include <algorithm>

namespace moelab {

Seconds TimingModel::recover(double elements) const {
  if (recovers_on_cpu()) return Seconds(device_.cpu.recover->value(elements));
  return Bytes(4 * elements) / device_.memory.bandwidth->value + device_.gpu->launch.value;
}

Seconds TimingModel::kernel(const Work& work) const {
  const bool cpu = computes_on_cpu();
  const FlopsPerSecond peak =
      cpu ? device_.cpu.peak->value : device_.gpu->peak.value * device_.gpu->flops_efficiency.value;
  const BytesPerSecond bandwidth = cpu ? device_.cpu.bandwidth->value : device_.memory.bandwidth->value;
  const Seconds launch = cpu ? device_.cpu.dense_launch->value : device_.gpu->launch.value;
  const Seconds traffic = (work.weight_bytes + work.kv_bytes) / bandwidth;
  return std::max(work.flops / peak, traffic) + launch * work.kernels;
}

Seconds TimingModel::expert(const Architecture& model, const FeedForward& ff, double tokens) const {
  const auto fits = [&](const CpuExperts& e) {
    return model.bytes_per_weight == 2 && e.hidden == model.hidden && e.width == ff.width &&
           e.matrices == ff.matrices;
  };
  const std::vector<CpuExperts>& measured = device_.cpu.experts;
  const auto found = std::find_if(measured.begin(), measured.end(), fits);
  if (computes_on_cpu() && found != measured.end() && tokens > 0)
    return Seconds(found->seconds.value(tokens));
  return kernel(expert_work(model, ff, tokens));
}

}  // namespace moelab
