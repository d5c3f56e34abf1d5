// What a run did, graph by graph, so that the same run on hardware and in the simulator can be laid side by
// side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/labelled_graph.hpp"
#include "sim/serving/graph_observer.hpp"
#include "sim/serving/metrics.hpp"

namespace moelab {

class ChunkStoreReader;

struct RecordedOperation {
  OpLabel label;
  double seconds;  // from the engine's decision to its end
};

struct RecordedGraph {
  std::uint64_t pass;
  std::int32_t layer;       // of the model; -1: the end of a pass
  std::uint32_t moe_layer;  // counted among the MoE layers; LabelledGraph::kNoLayer: no experts
  double seconds;           // from being submitted to being finished: of experts, the layer's makespan
  std::vector<RecordedOperation> operations;

  bool has_experts() const { return moe_layer != LabelledGraph::kNoLayer; }
  /// Whether it brings a layer's experts into a window, and computes nothing.
  bool streams() const;
};

/// Of systems that do not prefetch, whose graphs do not depend on time.
class RunRecord final : public GraphObserver {
 public:
  void finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) override;
  void answered(const ServedSpan& span) override { answers_.push_back(span.request); }
  const std::vector<RecordedGraph>& graphs() const { return graphs_; }
  /// Numbers of requests, in the order in which they were answered.
  const std::vector<std::uint64_t>& answers() const { return answers_; }

 private:
  std::vector<RecordedGraph> graphs_;
  std::vector<std::uint64_t> answers_;
};

/// Where the runs stop doing the same (another graph, another operation, another answer): a sentence; none
/// where they do not.
std::optional<std::string> first_difference(const RunRecord& predicted, const RunRecord& measured);
/// The same of what serving from a KV cache in blocks took.
std::optional<std::string> first_difference(const ServingCounts& predicted, const ServingCounts& measured);

/// Bytes of the chunks, whole tensors, or experts that come over a link, that the run's reads name, as this
/// store has them.
std::uint64_t bytes_named(const RunRecord& run, const ChunkStoreReader& store);

}  // namespace moelab
