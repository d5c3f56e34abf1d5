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
  const GpuMemory& own = *timing.device().gpu->own;
  if (const double traffic = decode_traffic(plan); traffic > 0) {
    const double bandwidth = own.bandwidth.value.value();
    const double together = 1 + std::min(traffic / bandwidth, 1.0);
    r.memory = engine.add_capacity("gpu_memory", {.slowdown = {1, together}, .bandwidth = bandwidth});
  }
  if (engine.resolves_chains()) {
    constexpr double kLarge = 1e9;
    r.link = engine.add_capacity("pcie", {.bandwidth = kLarge / own.link.to_device.value(kLarge)});
  }
  return r;
}

void add_swaps(LabelledGraph& swaps, Bytes out, Bytes in, const PagedResources& resources,
               const TimingModel& timing) {
  engine::Graph& graph = swaps.graph;
  engine::OpIndex leaves = engine::kNoOp;
  if (out > Bytes(0)) {
    leaves = graph.add(graph.lane(resources.link_out), timing.store(out).value());
    swaps.labels.push_back({OpKind::swap_out});
  }
  if (in > Bytes(0)) {
    const double seconds = timing.load(in).value();
    const engine::OpIndex comes = graph.add(graph.lane(resources.link_in), seconds);
    if (resources.link != engine::kNoCapacity) graph.share(comes, resources.link, seconds, in.value());
    swaps.labels.push_back({OpKind::swap_in});
    if (leaves != engine::kNoOp) graph.depend(comes, leaves);  // into the blocks that became free
  }
}

}  // namespace moelab
