// A graph together with what its operations mean: the engine never asks, results, timelines and the hardware
// do.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/engine/graph.hpp"

namespace moelab {

enum class OpKind : std::uint8_t {
  read_sm,
  read_e,
  read_tensor,
  decompress,
  recover,
  execute,
  dense,
  shared_expert,
  host,
  cpu_execute,  // an expert that stays in host memory
  send,         // activations to the host, for the experts that it computes
  receive,      // what they make of them
  predict,      // gates ahead of their layer
  wait,         // takes no time: a layer that ends with fetches that were on their way
  // Where a GPU pages its experts, a layer at a time.
  grouped_experts,  // all routed and shared experts of a layer
  all_reduce,       // over the GPUs that share the model
  remap,            // address space of a layer's experts, backed by the window's memory
  decode,           // experts that lie compressed in the GPU's memory, into the window
  load,             // experts that lie elsewhere, into the window
  swap_in,          // blocks of the KV cache, from the host's memory
  swap_out,
  promote,  // experts that are to lie in the GPU's memory from now on
  // Where several servers call each other.
  message,         // hidden states, from one server to another
  remote_experts,  // experts that another GPU computes
  migrate,         // an expert, to where it is to be from now on
  // Where the GPUs of a node have requests of their own and share the experts.
  dispatch,  // rows, to all GPUs
  combine,   // what the experts made of them, summed up, to whose rows they are
  draft      // tokens that the step verifies, by a draft model or a head
};
inline constexpr int kOpKinds = static_cast<int>(OpKind::draft) + 1;
std::string_view to_string(OpKind kind);

/// Where a read is served from.
enum class Tier : std::uint8_t { none, ssd, page_cache, host };  // host: its memory, over the link
inline constexpr int kTiers = 4;
std::string_view to_string(Tier tier);

/// OpLabel::tensor of an operation on all tensors of an expert.
inline constexpr std::uint16_t kWholeExpert = 0xffff;

/// What an operation means. `dense`, `draft` and `shared_expert`: how much they do is in
/// LabelledGraph::kernel.
struct OpLabel {
  OpKind kind;
  Tier tier = Tier::none;
  std::uint16_t tensor = 0;
  std::uint16_t chunk = 0;
  std::uint32_t expert = 0;   // LayerExpert::id
  std::uint32_t tokens = 0;   // of an execution: tokens routed to the expert
  bool low_score = false;     // of an expert's load: it is low-score for all its tokens
  std::uint16_t backend = 0;  // of a decode or load into the window: its number in PagingConfig::backends
  double bytes = 0;           // that a read, a load, a copy or a sum moves; 0: not said
};

/// What dense kernels do together.
struct KernelWork {
  double bytes = 0;  // weights, keys and values that they read
  double flops = 0;
  int kernels = 0;  // of how many the work is
};

/// What goes over the link for its `swap_out` and its `swap_in`, blocks of the KV cache.
struct SwappedBytes {
  double out = 0;  // to the host's memory
  double in = 0;
};

/// An executor that is given `graph` finds the rest by graph.labelled(): so an object stays where it is.
struct LabelledGraph {
  static constexpr std::uint32_t kNoLayer = 0xffffffff;

  LabelledGraph() { graph.set_labelled(this); }
  LabelledGraph(const LabelledGraph&) = delete;
  LabelledGraph& operator=(const LabelledGraph&) = delete;

  engine::Graph graph;
  std::vector<OpLabel> labels;     // by operation
  std::uint32_t layer = kNoLayer;  // whose experts it is about, counted among the MoE layers
  KernelWork kernel;               // of its dense, draft or shared-expert operation: a graph has at most one
  KernelWork shared;               // of its grouped experts: what the shared ones do
  SwappedBytes swapped;            // likewise at most one each way

  /// Bytes that an operation moves, kernels those of weights, keys and values; 0: not said.
  double moved(engine::OpIndex op) const;
  void clear() {
    graph.clear();
    labels.clear();
    layer = kNoLayer;
    kernel = shared = {};
    swapped = {};
  }
};

}  // namespace moelab
