#include "sim/serving/expert_load.hpp"

namespace moelab {

using engine::OpIndex;

namespace {

OpLabel label_of(const ExpertLoad& load, Tier tier, std::uint16_t piece, Bytes bytes) {
  return {.kind = load.kind,
          .tier = tier,
          .tensor = load.tensor,
          .chunk = piece,
          .expert = load.expert,
          .backend = load.backend,
          .bytes = bytes.value()};
}

}  // namespace

OpIndex add_expert_load(LabelledGraph& out, const ExpertLoad& load, const PagedResources& resources,
                        std::size_t gpu, const TimingModel& timing, int ranks, OpIndex after) {
  constexpr std::uint16_t kPieces = 8;  // an eighth of what is shorter, reading or crossing, does not overlap
  engine::Graph& graph = out.graph;
  const PagedGpu& to = resources.gpus[gpu];
  const std::uint16_t pieces = load.from_ssd && load.tensor != kWholeExpert ? kPieces : 1;
  const Bytes part = load.bytes / pieces;
  const auto add = [&](engine::ResourceId where, Seconds time, Tier tier, std::uint16_t piece,
                       OpIndex before) {
    const OpIndex op = graph.add(graph.lane(where), time.value());
    out.labels.push_back(label_of(load, tier, piece, part));
    if (before != engine::kNoOp) graph.depend(op, before);
    return op;
  };
  OpIndex last = engine::kNoOp;
  for (std::uint16_t piece = 0; piece < pieces; ++piece) {
    OpIndex before = after;
    if (load.from_ssd) before = last = add(to.ssd, timing.ssd_read(part * ranks), Tier::ssd, piece, after);
    if (load.cached && !timing.is_discrete())
      last = add(to.ssd, timing.page_cache_read(part), Tier::page_cache, piece, after);
    if (!timing.is_discrete()) continue;  // it is where the GPU computes
    const Seconds crossing = timing.load(part);
    last = add(to.link_in, crossing + timing.copy_hand_over(), Tier::none, piece, before);
    if (to.link != engine::kNoCapacity) graph.share(last, to.link, crossing.value(), part.value());
    if (to.cpu != engine::kNoCapacity) graph.share(last, to.cpu, crossing.value());
  }
  return last;
}

OpIndex add_decoding(LabelledGraph& out, Bytes plain, const GpuCodecProfile& codec, const PagedGpu& gpu,
                     const TimingModel& timing, OpIndex after, const OpLabel& label) {
  engine::Graph& graph = out.graph;
  const double seconds = timing.decode(codec, plain).value();
  const OpIndex op = graph.add(graph.lane(gpu.decode), seconds + timing.copy_hand_over().value());
  if (gpu.memory != engine::kNoCapacity)
    graph.share(op, gpu.memory, seconds, plain.value() * (1 + codec.ratio.value));
  if (gpu.cpu != engine::kNoCapacity) graph.share(op, gpu.cpu, seconds);
  out.labels.push_back(label);
  if (after != engine::kNoOp) graph.depend(op, after);
  return op;
}

}  // namespace moelab
