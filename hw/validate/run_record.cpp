#include "hw/validate/run_record.hpp"

#include <algorithm>

#include "hw/store/chunk_store_reader.hpp"

namespace moelab {
namespace {

bool means_the_same(const RecordedOperation& a, const RecordedOperation& b) {
  return a.label.kind == b.label.kind && a.label.tier == b.label.tier && a.label.tensor == b.label.tensor &&
         a.label.chunk == b.label.chunk && a.label.expert == b.label.expert &&
         a.label.tokens == b.label.tokens && a.label.low_score == b.label.low_score &&
         a.label.backend == b.label.backend;
}

std::string name_of(const RecordedGraph& graph) {
  return "pass " + std::to_string(graph.pass) +
         (graph.layer < 0 ? ", its end" : ", layer " + std::to_string(graph.layer));
}

std::string name_of(const RecordedOperation& operation) {
  const OpLabel& l = operation.label;
  return std::string(to_string(l.kind)) + " of expert " + std::to_string(l.expert) + ", tensor " +
         std::to_string(l.tensor) + ", chunk " + std::to_string(l.chunk);
}

std::optional<std::string> difference(const RecordedGraph& predicted, const RecordedGraph& measured) {
  if (predicted.pass != measured.pass || predicted.layer != measured.layer ||
      predicted.moe_layer != measured.moe_layer)
    return name_of(predicted) + " in the simulator is " + name_of(measured) + " on hardware";
  if (predicted.operations.size() != measured.operations.size())
    return name_of(predicted) + " has " + std::to_string(predicted.operations.size()) +
           " operations in the simulator, " + std::to_string(measured.operations.size()) + " on hardware";
  for (std::size_t i = 0; i < predicted.operations.size(); ++i)
    if (!means_the_same(predicted.operations[i], measured.operations[i]))
      return name_of(predicted) + ": the simulator's " + name_of(predicted.operations[i]) + " is " +
             name_of(measured.operations[i]) + " on hardware";
  return std::nullopt;
}

}  // namespace

bool RecordedGraph::streams() const {
  return std::ranges::any_of(operations, [](const RecordedOperation& operation) {
    return operation.label.kind == OpKind::load || operation.label.kind == OpKind::decode;
  });
}

void RunRecord::finished(const LabelledGraph& graph, std::uint64_t pass, std::int32_t layer) {
  const engine::Graph& times = graph.graph;
  RecordedGraph done{pass, layer, graph.layer, times.finished_at() - times.submitted_at(), {}};
  done.operations.reserve(times.size());
  for (engine::OpIndex op = 0; op < times.size(); ++op)
    done.operations.push_back({graph.labels[op], times.end(op) - times.start(op)});
  graphs_.push_back(std::move(done));
}

std::optional<std::string> first_difference(const RunRecord& predicted, const RunRecord& measured) {
  const std::size_t both = std::min(predicted.graphs().size(), measured.graphs().size());
  for (std::size_t i = 0; i < both; ++i)
    if (auto found = difference(predicted.graphs()[i], measured.graphs()[i])) return found;
  if (predicted.graphs().size() != measured.graphs().size())
    return std::to_string(predicted.graphs().size()) + " graphs ran in the simulator, " +
           std::to_string(measured.graphs().size()) + " on hardware";
  if (predicted.answers() == measured.answers()) return std::nullopt;
  return "requests were answered in another order, or others";
}

std::optional<std::string> first_difference(const ServingCounts& predicted, const ServingCounts& measured) {
  struct Count {
    const char* what;
    std::uint64_t predicted, measured;
  };
  for (const Count& c :
       {Count{"steps", predicted.steps, measured.steps}, Count{"rows", predicted.rows, measured.rows},
        Count{"rows computed again", predicted.recomputed, measured.recomputed},
        Count{"requests swapped out", predicted.swapped_out, measured.swapped_out},
        Count{"requests dropped", predicted.dropped, measured.dropped},
        Count{"blocks of the KV cache at most", predicted.most_blocks, measured.most_blocks}})
    if (c.predicted != c.measured)
      return std::to_string(c.predicted) + " " + c.what + " in the simulator, " + std::to_string(c.measured) +
             " on hardware";
  return std::nullopt;
}

std::uint64_t bytes_named(const RunRecord& run, const ChunkStoreReader& store) {
  std::uint64_t bytes = 0;
  for (const RecordedGraph& graph : run.graphs())
    for (const RecordedOperation& operation : graph.operations) {
      const OpLabel& label = operation.label;
      const TensorPlace place{graph.moe_layer, label.expert, label.tensor};
      if (label.kind == OpKind::read_sm) bytes += store.sign_mantissa_chunk(place).record.stored_bytes;
      if (label.kind == OpKind::read_e) bytes += store.exponent_chunk(place, label.chunk).record.stored_bytes;
      if (label.kind == OpKind::read_tensor) bytes += 2 * store.weights().kinds[label.tensor].elements();
    }
  return bytes;
}

}  // namespace moelab
