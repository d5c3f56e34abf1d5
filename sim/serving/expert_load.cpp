#include "sim/serving/expert_load.hpp"

namespace moelab {

using engine::OpIndex;

namespace {

OpLabel label_of(const ExpertLoad& load, Tier tier, std::uint16_t piece) {
  return {.kind = load.kind, .tier = tier, .tensor = load.tensor, .chunk = piece, .backend = load.backend};
}

}  // namespace

void add_expert_load(LabelledGraph& out, const ExpertLoad& load, const PagedResources& resources,
                     std::size_t gpu, const TimingModel& timing, int ranks, OpIndex after) {
  constexpr std::uint16_t kPieces = 8;  // an eighth of what is shorter, reading or crossing, does not overlap
  engine::Graph& graph = out.graph;
  const PagedGpu& to = resources.gpus[gpu];
  const std::uint16_t pieces = load.from_ssd ? kPieces : 1;
  const Bytes part = load.bytes / pieces;
  for (std::uint16_t piece = 0; piece < pieces; ++piece) {
    OpIndex before = after;
    if (load.from_ssd) {
      before = graph.add(graph.lane(to.ssd), timing.ssd_read(part * ranks).value());
      out.labels.push_back(label_of(load, Tier::ssd, piece));
      if (after != engine::kNoOp) graph.depend(before, after);
    }
    if (!timing.is_discrete()) continue;  // it is where the GPU computes
    const double seconds = timing.load(part).value();
    const OpIndex op = graph.add(graph.lane(to.link_in), seconds + timing.copy_hand_over().value());
    if (to.link != engine::kNoCapacity) graph.share(op, to.link, seconds, part.value());
    if (to.cpu != engine::kNoCapacity) graph.share(op, to.cpu, seconds);
    out.labels.push_back(label_of(load, Tier::none, piece));
    if (before != engine::kNoOp) graph.depend(op, before);
  }
}

}  // namespace moelab
