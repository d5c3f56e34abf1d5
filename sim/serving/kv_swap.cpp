#include "sim/serving/kv_swap.hpp"

namespace moelab {

void add_swaps(LabelledGraph& swaps, Bytes out, Bytes in, const SwapPath& path, const TimingModel& timing) {
  engine::Graph& graph = swaps.graph;
  swaps.swapped = {out.value(), in.value()};
  engine::OpIndex leaves = engine::kNoOp;
  if (out > Bytes(0)) {
    leaves = graph.add(graph.lane(path.link_out), (timing.store(out) + timing.copy_hand_over()).value());
    swaps.labels.push_back({OpKind::swap_out});
  }
  if (in > Bytes(0)) {
    const double seconds = timing.load(in).value();
    const engine::OpIndex comes =
        graph.add(graph.lane(path.link_in), seconds + timing.copy_hand_over().value());
    if (path.link != engine::kNoCapacity) graph.share(comes, path.link, seconds, in.value());
    swaps.labels.push_back({OpKind::swap_in});
    if (leaves != engine::kNoOp) graph.depend(comes, leaves);  // into the blocks that became free
  }
}

}  // namespace moelab
