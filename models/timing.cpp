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

Seconds longer(Flops flops, FlopsPerSecond peak, Bytes bytes, BytesPerSecond bandwidth) {
  return std::max(flops / peak, bytes / bandwidth);
}

}  // namespace

Seconds TimingModel::launches_of_software(const Work& work, const Rows& rows) const {
  const RuntimeCosts& r = *device_.software;
  const double one = computes_on_cpu()
                         ? r.cpu_launch
                         : r.kernel_s(rows.single, rows.rows, rows.hidden, gpu_bandwidth().value());
  return Seconds(r.launches(work.kernels, work.biases, rows.single) * one);
}

Seconds TimingModel::kernel_of_software(const Work& work, const Rows& rows) const {
  const RuntimeCosts& r = *device_.software;
  const Flops projected = work.flops - work.mixing - work.recurrence;
  if (computes_on_cpu()) {
    const FlopsPerSecond peak = device_.cpu.peak->value * r.cpu_peak;
    const BytesPerSecond bandwidth = device_.cpu.bandwidth->value * r.cpu_bandwidth;
    return longer(projected, peak, work.weight_bytes, bandwidth) +
           longer(work.mixing + work.recurrence, peak, work.kv_bytes, bandwidth) +
           launches_of_software(work, rows);
  }
  const FlopsPerSecond peak = device_.gpu->peak.value * device_.gpu->flops_efficiency.value;
  const BytesPerSecond bandwidth = gpu_bandwidth();
  const Seconds products(RuntimeCosts::overlapped(
      (work.weight_bytes / (bandwidth * r.dense_bandwidth)).value(),
      (projected / (peak * r.dense_peak)).value(), rows.single ? 1 : r.dense_overlap));
  return products +
         longer(work.mixing, peak * r.attention_peak, work.kv_bytes, bandwidth * r.attention_bandwidth) +
         work.recurrence / (peak * r.recurrence_peak) + launches_of_software(work, rows);
}

Seconds TimingModel::experts_of_software(const Work& work, double tokens_an_expert, bool single) const {
  const RuntimeCosts& r = *device_.software;
  const Seconds arithmetic = work.flops /
                             (device_.gpu->peak.value * device_.gpu->flops_efficiency.value * r.expert_peak) *
                             (single ? 1 : 1 + r.expert_tokens / tokens_an_expert);
  const Seconds memory =
      work.weight_bytes / (gpu_bandwidth() * (single ? r.expert_bandwidth : r.batched_bandwidth));
  if (single) return std::max(memory, arithmetic);
  return Seconds(r.overlapped(memory.value(), arithmetic.value()));
}

Seconds TimingModel::launch() const {
  return device_.software ? Seconds(device_.software->launch) : device_.gpu->launch.value;
}

Seconds TimingModel::expert_launches(const Architecture& model, const FeedForward& ff, double tokens) const {
  if (!device_.software || device_.software->launch_each != 0 || tokens == 0) return Seconds(0);
  return launches_of_software(expert_work(model, ff, 1),
                              {tokens == 1, tokens * ff.top_k, static_cast<double>(model.hidden)});
}

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
  return Bytes(4 * elements) / gpu_bandwidth() + launch();
}

Seconds TimingModel::kernel(const Work& work, double tokens, double hidden) const {
  if (device_.software) return kernel_of_software(work, {tokens == 1, tokens, hidden});
  if (computes_on_cpu()) return roofline(work, device_.cpu);
  const GpuProfile& gpu = *device_.gpu;
  return roofline(work, gpu.peak.value * gpu.flops_efficiency.value, gpu_bandwidth(), gpu.launch.value);
}

Seconds TimingModel::expert(const Architecture& model, const FeedForward& ff, double tokens,
                            bool single) const {
  if (computes_on_cpu()) return *cpu_expert(model, ff, tokens);
  const Work work = expert_work(model, ff, tokens);
  if (!device_.software) return kernel(work);
  if (tokens == 0) return Seconds(0);
  const Rows rows{single, tokens, static_cast<double>(model.hidden)};
  const Seconds own = device_.software->launch_each != 0 ? launches_of_software(work, rows) : Seconds(0);
  return experts_of_software(work, tokens, single) + own;
}

Seconds TimingModel::grouped_experts(const Architecture& model, double distinct, double activations) const {
  const FeedForward& ff = model.moe();
  return grouped_experts(model, ff, distinct, activations, activations <= ff.top_k);
}

Seconds TimingModel::grouped_experts(const Architecture& model, const FeedForward& ff, double distinct,
                                     double activations, bool single) const {
  if (activations == 0) return Seconds(0);
  if (computes_on_cpu() && measured_experts(model, ff) != nullptr)
    return distinct * expert(model, ff, activations / distinct, single);
  Work work = expert_work(model, ff, activations);
  work.weight_bytes = work.weight_bytes * distinct;
  if (!device_.software || computes_on_cpu()) return kernel(work);
  const Rows rows{single, activations / distinct, static_cast<double>(model.hidden)};
  const Seconds own =
      device_.software->launch_each != 0 ? distinct * launches_of_software(work, rows) : Seconds(0);
  return experts_of_software(work, activations / distinct, single) + own;
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
  const Seconds decoded = plain / codec.rate.value;
  if (device_.has_stand_in()) return decoded;
  return std::max(decoded, plain * (1 + codec.ratio.value) / gpu_bandwidth());
}

Seconds TimingModel::remap(Bytes bytes) const {
  if (bytes == Bytes(0) || !device_.gpu || !device_.gpu->remap) return Seconds(0);
  return Seconds(device_.gpu->remap->value(bytes.value()));
}

const CpuExperts* TimingModel::measured_experts(const Architecture& model, const FeedForward& ff) const {
  const auto fits = [&](const CpuExperts& e) {
    return model.stored.of(WeightPart::experts) == 2 && e.hidden == model.hidden && e.width == ff.width &&
           e.matrices == ff.matrices;
  };
  const std::vector<CpuExperts>& measured = device_.cpu.experts;
  const auto found = std::find_if(measured.begin(), measured.end(), fits);
  return found == measured.end() ? nullptr : &*found;
}

std::optional<Seconds> TimingModel::cpu_expert(const Architecture& model, const FeedForward& ff,
                                               double tokens) const {
  if (tokens == 0) return Seconds(0);
  if (const CpuExperts* const measured = measured_experts(model, ff))
    return Seconds(measured->seconds.value(tokens));
  if (!has_roofline(device_.cpu)) return std::nullopt;
  const Work work = expert_work(model, ff, tokens);
  if (!device_.software) return roofline(work, device_.cpu);
  const RuntimeCosts& r = *device_.software;
  const bool own_launches = computes_on_cpu() && r.launch_each != 0;
  return longer(work.flops, device_.cpu.peak->value * r.cpu_peak, work.weight_bytes,
                device_.cpu.bandwidth->value * r.cpu_bandwidth) +
         (own_launches ? launches_of_software(work, {true, tokens, 0}) : Seconds(0));
}

}  // namespace moelab
