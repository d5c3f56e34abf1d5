#include "sim/serving/paged_resources.hpp"

#include <algorithm>

namespace moelab {
namespace {

/// Bytes a second that decoding moves through the GPU's memory: compressed ones in, plain ones out.
double decode_traffic(const PagedPlan& plan) {
  double most = 0;
  for (const GpuCodecProfile* codec : plan.codecs)
    if (codec != nullptr) most = std::max(most, codec->rate.value.value() * (1 + codec->ratio.value));
  return most;
}

}  // namespace

PagedResources add_paged_resources(engine::Engine& engine, const TimingModel& timing, const PagedPlan& plan) {
  PagedResources r{};
  r.host = engine.add_resource("host", 1);
  r.pager = engine.add_resource("pager", 1);
  r.compute = engine.add_resource("compute", 1);
  r.decode = engine.add_resource("decode", 1);
  r.link_in = engine.add_resource("link", 1);
  r.link_out = engine.add_resource("link_out", 1);
  r.ssd = engine.add_resource("ssd", 1);
  r.collective = engine.add_resource("collective", 1);
  if (const double traffic = decode_traffic(plan); traffic > 0) {
    const double bandwidth = timing.gpu_bandwidth().value();
    const double together = 1 + std::min(traffic / bandwidth, 1.0);
    r.memory = engine.add_capacity("gpu_memory", {.slowdown = {1, together}, .bandwidth = bandwidth});
  }
  if (engine.resolves_chains() && timing.is_discrete()) {
    const Bytes large(1e9);
    r.link = engine.add_capacity("pcie", {.bandwidth = (large / timing.load(large)).value()});
  }
  return r;
}

}  // namespace moelab
