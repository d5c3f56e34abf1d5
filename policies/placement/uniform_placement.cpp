// uniform: each layer's experts split evenly over the GPUs, in order, one copy of each (expert parallelism of
// Megatron-LM, the baseline of Prism's section IV-A).
//
//   slots of each GPU: the same of each layer (slots.hpp: even_shares, slots_by_layer)
//   each layer: experts 0, 1, ... to GPU 0 until its slots are taken, then to GPU 1, ...; `copies` times
//   round
//
// Where E is a multiple of the GPUs and memory suffices, GPU g has experts g * E / G to (g + 1) * E / G - 1
// of each layer, as in Megatron. Where memory differs, GPUs with too little give what they lack to the
// others. The paper says "random" experts; which ones makes no difference to it, as experts have no order.
// With copies > 1, what would come to a server a second time gets its place as in coverage.hpp.
#include <numeric>

#include "policies/placement/coverage.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

Placement place_uniform(const PlacementShape& shape, const ActivationCounts& counts,
                        const PolicyParameters&) {
  check_placement_shape(shape);
  check_activation_counts(shape, counts);
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts * shape.copies;
  const std::vector<std::uint32_t> slots = slots_by_layer(even_shares(gpu_slots(shape), all), shape.layers);
  Placement placement(shape);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    std::uint64_t next = 0;
    for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu)
      for (std::uint32_t k = 0; k < slots[std::size_t{gpu} * shape.layers + layer]; ++k) {
        const auto expert = static_cast<std::uint32_t>(next++ % shape.experts);
        if (!placement.on_server(placement.server_of(gpu), layer, expert))
          placement.place(gpu, layer, expert);
      }
  }
  cover(shape, counts, placement);
  return placement;
}

}  // namespace

PlacementPolicyEntry uniform_placement_entry() {
  return {.info = {.name = "uniform",
                   .help = "each layer's experts split evenly over the GPUs, one copy of each",
                   .source = "Megatron-LM's expert parallelism; Prism, arXiv 2508.12851, section IV-A"},
          .place = place_uniform};
}

}  // namespace moelab
