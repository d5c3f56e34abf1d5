#include "sim/serving/paged_resources.hpp"

#include <algorithm>
#include <string>

namespace moelab {
namespace {

/// Bytes a second that decoding moves through the GPU's memory: compressed ones in, plain ones out.
double decode_traffic(const PagedPlan& plan) {
  double most = 0;
  for (const GpuCodecProfile* codec : plan.codecs)
    if (codec != nullptr) most = std::max(most, codec->rate.value.value() * (1 + codec->ratio.value));
  return most;
}

PagedGpu add_gpu(engine::Engine& engine, const TimingModel& timing, double decodes,
                 const std::string& prefix) {
  const auto add = [&](const char* name) { return engine.add_resource(prefix + name, 1); };
  PagedGpu r{};
  r.host = add("host");
  r.pager = add("pager");
  r.compute = add("compute");
  r.decode = add("decode");
  r.link_in = add("link");
  r.link_out = add("link_out");
  r.ssd = add("ssd");
  r.collective = add("collective");
  if (timing.copies_on_cpu()) {
    const CpuProfile& cpu = timing.device().cpu;
    if (!cpu.sharing) return r;
    r.cpu = engine.add_capacity(prefix + "cpu", {.slowdown = cpu.sharing->value});
    if (cpu.slowdown_while_reading)  // what reads the SSD does nothing else: the GPU has memory of its own
      engine.add_interference({r.cpu, r.ssd, cpu.slowdown_while_reading->value});
    return r;
  }
  if (decodes > 0) {
    const double bandwidth = timing.gpu_bandwidth().value();
    const double together = 1 + std::min(decodes / bandwidth, 1.0);
    r.memory =
        engine.add_capacity(prefix + "gpu_memory", {.slowdown = {1, together}, .bandwidth = bandwidth});
  }
  if (engine.resolves_chains() && timing.is_discrete()) {
    const Bytes large(1e9);
    r.link = engine.add_capacity(prefix + "pcie", {.bandwidth = (large / timing.load(large)).value()});
  }
  return r;
}

}  // namespace

PagedResources add_paged_resources(engine::Engine& engine, const TimingModel& timing, const PagedPlan& plan,
                                   std::size_t gpus, const std::string& prefix) {
  PagedResources node;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu)
    node.gpus.push_back(add_gpu(engine, timing, decode_traffic(plan),
                                prefix + (gpus > 1 ? "gpu" + std::to_string(gpu) + "/" : "")));
  return node;
}

}  // namespace moelab
