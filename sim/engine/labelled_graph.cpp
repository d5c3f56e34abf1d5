#include "sim/engine/labelled_graph.hpp"

#include <array>

namespace moelab {

std::string_view to_string(OpKind kind) {
  static constexpr std::array<std::string_view, kOpKinds> kNames = {
      "read_sm",         "read_e",     "read_tensor",    "decompress", "recover",  "execute", "dense",
      "shared_expert",   "host",       "cpu_execute",    "send",       "receive",  "predict", "wait",
      "grouped_experts", "all_reduce", "remap",          "decode",     "load",     "swap_in", "swap_out",
      "promote",         "message",    "remote_experts", "migrate",    "dispatch", "combine", "draft"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Tier tier) {
  static constexpr std::array<std::string_view, kTiers> kNames = {"none", "ssd", "page_cache", "host"};
  return kNames[static_cast<std::size_t>(tier)];
}

double LabelledGraph::moved(engine::OpIndex op) const {
  if (graph.capacity(op) == engine::kNetwork) return graph.flow(op).bytes;
  switch (labels[op].kind) {
    case OpKind::dense:
    case OpKind::draft:
    case OpKind::shared_expert:
      return kernel.bytes;
    case OpKind::swap_out:
      return swapped.out;
    case OpKind::swap_in:
      return swapped.in;
    default:
      return labels[op].bytes;
  }
}

}  // namespace moelab
