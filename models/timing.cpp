#include "models/timing.hpp"

#include <algorithm>
#include <cassert>

namespace moelab {
namespace {

Seconds roofline(const Work& work, FlopsPerSecond peak, BytesPerSecond bandwidth, Seconds launch) {
  const Seconds traffic = (work.weight_bytes + work.kv_bytes) / bandwidth;
  return std::max(work.flops / peak, traffic) + launch * work.kernels;
}

bool has_roofline(const CpuProfile& cpu) {
  return cpu.peak && cpu.bandwidth && cpu.dense_launch;
}

Seconds roofline(const Work& work, const CpuProfile& cpu) {
  return roofline(work, cpu.peak->value, cpu.bandwidth->value, cpu.dense_launch->value);
}

}  // namespace

BytesPerSecond TimingModel::gpu_bandwidth() const {
  return is_discrete() ? device_.gpu->own->bandwidth.value : device_.memory.bandwidth->value;
}

const LinkProfile& TimingModel::link() const {
  assert(is_discrete());
  return device_.gpu->own->link;
}

Seconds TimingModel::load(Bytes bytes) const {
  return Seconds(link().to_device.value(bytes.value()));
}

Seconds TimingModel::store(Bytes bytes) const {
  return Seconds(link().to_host.value(bytes.value()));
}

std::optional<Seconds> TimingModel::load_pageable(Bytes bytes) const {
  if (!link().pageable) return std::nullopt;
  return Seconds(link().pageable->value(bytes.value()));
}

Seconds TimingModel::recover(double elements) const {
  if (recovers_on_cpu()) return Seconds(device_.cpu.recover->value(elements));
  return Bytes(4 * elements) / gpu_bandwidth() + device_.gpu->launch.value;
}

Seconds TimingModel::kernel(const Work& work) const {
  if (computes_on_cpu()) return roofline(work, device_.cpu);
  const GpuProfile& gpu = *device_.gpu;
  return roofline(work, gpu.peak.value * gpu.flops_efficiency.value, gpu_bandwidth(), gpu.launch.value);
}

Seconds TimingModel::expert(const Architecture& model, const FeedForward& ff, double tokens) const {
  if (computes_on_cpu()) return *cpu_expert(model, ff, tokens);
  return kernel(expert_work(model, ff, tokens));
}

Seconds TimingModel::grouped_experts(const Architecture& model, double distinct, double activations) const {
  if (activations == 0) return Seconds(0);
  Work work = expert_work(model, model.moe(), activations);
  work.weight_bytes = work.weight_bytes * distinct;
  return kernel(work);
}

Seconds TimingModel::all_reduce(int ranks, Bytes bytes) const {
  if (ranks <= 1 || bytes == Bytes(0)) return Seconds(0);
  const std::vector<AllReduceProfile>& measured = device_.gpu->node->all_reduce;
  const auto found =
      std::find_if(measured.begin(), measured.end(), [&](const auto& r) { return r.gpus >= ranks; });
  assert(found != measured.end());
  return Seconds(found->seconds.value(bytes.value()));
}

Seconds TimingModel::decode(const GpuCodecProfile& codec, Bytes plain) const {
  return std::max(plain / codec.rate.value, plain * (1 + codec.ratio.value) / gpu_bandwidth());
}

Seconds TimingModel::remap(Bytes bytes) const {
  if (bytes == Bytes(0) || !device_.gpu || !device_.gpu->remap) return Seconds(0);
  return Seconds(device_.gpu->remap->value(bytes.value()));
}

std::optional<Seconds> TimingModel::cpu_expert(const Architecture& model, const FeedForward& ff,
                                               double tokens) const {
  if (tokens == 0) return Seconds(0);
  const auto fits = [&](const CpuExperts& e) {
    return model.stored.of(WeightPart::experts) == 2 && e.hidden == model.hidden && e.width == ff.width &&
           e.matrices == ff.matrices;
  };
  const std::vector<CpuExperts>& measured = device_.cpu.experts;
  const auto found = std::find_if(measured.begin(), measured.end(), fits);
  if (found != measured.end()) return Seconds(found->seconds.value(tokens));
  if (!has_roofline(device_.cpu)) return std::nullopt;
  return roofline(expert_work(model, ff, tokens), device_.cpu);
}

}  // namespace moelab
