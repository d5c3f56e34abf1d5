#include "sim/engine/lone_graph.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/engine/invariant.hpp"

// Every function here is a part of one loop, called from one or two places of it.
#define MOELAB_INLINE [[gnu::always_inline]] inline

namespace moelab::engine {
bool LoneGraph::prepare(std::span<const std::uint32_t> slots) {
  const std::size_t count = graph_->lanes_.size();
  if (count > kMostLanes || !graph_->shares_.empty() || !graph_->flows_.empty()) return false;
  std::uint64_t all_slots = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Graph::LaneState& lane = graph_->lanes_[i];
    all_slots += slots[lane.resource];
    lanes_[i] = {lane.ready,          0, slots[lane.resource], slots[lane.resource], lane.resource,
                 static_cast<Lane>(i)};
  }
  if (all_slots > kMostSlots) return false;
  std::sort(lanes_.begin(), lanes_.begin() + static_cast<std::ptrdiff_t>(count),
            [](const LaneRun& a, const LaneRun& b) { return a.resource < b.resource; });
  for (std::size_t i = 0; i < count; ++i) lane_at_[lanes_[i].lane] = static_cast<std::uint8_t>(i);
  marked_ = (std::uint64_t{1} << count) - 1;
  running_ = 0;
  now_ = 0;
  operations_ = 0;
  return true;
}

MOELAB_INLINE void LoneGraph::start(OpIndex op, LaneRun& lane) {
  check_invariant(lane.free > 0, "an operation starts on a free slot");
  check_invariant(graph_->unmet_[op] == 0, "an operation starts after its dependencies");
  --lane.free;
  graph_->starts_[op] = now_;
  const double end = now_ + graph_->ops_[op].seconds;
  std::size_t place = running_++;
  for (; place > 0 && ends_[place - 1] < end; --place) {
    ends_[place] = ends_[place - 1];
    what_[place] = what_[place - 1];
  }
  ends_[place] = end;
  what_[place] = op;
}

// In the order of the resources: it decides who finds a capacity shared.
MOELAB_INLINE void LoneGraph::serve() {
  for (std::uint64_t left = std::exchange(marked_, 0); left != 0; left &= left - 1) {
    LaneRun& lane = lanes_[static_cast<std::size_t>(std::countr_zero(left))];
    while (lane.free > 0) {
      const OpIndex op = lane.ready.pop();
      if (op == kNoOp) break;
      start(op, lane);
    }
  }
}

MOELAB_INLINE void LoneGraph::meet_dependency(OpIndex op, OpIndex by) {
  std::uint32_t& unmet = graph_->unmet_[op];
  check_invariant(unmet > 0, "a dependency is met once");
  if (--unmet != 0) return;
  graph_->last_dependencies_[op] = by;
  const std::size_t at = lane_at_[graph_->ops_[op].lane];
  lanes_[at].ready.insert(op);
  marked_ |= std::uint64_t{1} << at;
}

MOELAB_INLINE void LoneGraph::complete(OpIndex done) {
  Graph& graph = *graph_;
  const Graph::Op& op = graph.ops_[done];
  const std::size_t at = lane_at_[op.lane];
  LaneRun& lane = lanes_[at];
  graph.ends_[done] = now_;
  graph.last_ = done;
  lane.busy_seconds += now_ - graph.starts_[done];
  ++operations_;
  ++lane.free;
  check_invariant(lane.free <= lane.slots, "no more slots are freed than there are");
  if (op.continued) {
    graph.unmet_[done + 1] = 0;
    graph.last_dependencies_[done + 1] = done;
    continuing_.push_back(done + 1);
  } else {
    marked_ |= std::uint64_t{1} << at;
  }
  if (op.successor != kNoOp) meet_dependency(op.successor, done);
  for (std::uint32_t e = op.more; e != Graph::kNoEdge; e = graph.edges_[e].next)
    meet_dependency(graph.edges_[e].to, done);
}

// To the next instant at which operations end: in the order in which they were added they complete, then what
// continues on their slots starts.
MOELAB_INLINE void LoneGraph::advance() {
  check_invariant(ends_[running_ - 1] >= now_, "time runs forward");
  now_ = ends_[running_ - 1];
  const std::size_t last = running_--;
  if (running_ == 0 || ends_[running_ - 1] != now_) [[likely]] {
    complete(what_[running_]);
  } else {
    while (running_ > 0 && ends_[running_ - 1] == now_) --running_;
    std::sort(&what_[running_], &what_[last - 1] + 1);
    for (std::size_t i = running_; i < last; ++i) complete(what_[i]);
  }
  if (continuing_.empty()) return;
  for (const OpIndex op : continuing_) start(op, lanes_[lane_at_[graph_->ops_[op].lane]]);
  continuing_.clear();
}

bool LoneGraph::run(Graph& graph, std::span<const std::uint32_t> slots) {
  graph_ = &graph;
  if (!prepare(slots)) return false;
  for (serve(); running_ > 0; serve()) advance();
  for (std::size_t i = 0; i < graph.lanes_.size(); ++i)
    graph.lanes_[i].busy_seconds = lanes_[lane_at_[i]].busy_seconds;
  graph.started_ = operations_;
  graph.unfinished_ -= operations_;
  return true;
}

}  // namespace moelab::engine
