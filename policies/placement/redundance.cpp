// redundance: random experts up to each GPU's memory (the heuristic of Prism's section IV-A).
//
//   every expert somewhere, as `random`
//   each GPU: its free slots get random experts of all layers that its server does not hold
//
// The paper fills devices at random and says nothing of coverage: the first line keeps it. Experts are not
// doubled within a server, where a second copy would save no call.
#include <numeric>

#include "policies/placement/placement.hpp"
#include "policies/placement/random_placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

Placement place_redundance(const PlacementShape& shape, const ActivationCounts& counts,
                           const PolicyParameters&) {
  check_placement_shape(shape, true);
  check_activation_counts(shape, counts);
  PlacementRandom random(shape.seed);
  Placement placement = place_randomly(shape, counts, random);
  const std::vector<std::uint64_t> slots = gpu_slots(shape);
  std::vector<std::uint32_t> order(std::size_t{shape.layers} * shape.experts);
  std::iota(order.begin(), order.end(), 0U);
  for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu) {
    if (placement.held(gpu) >= slots[gpu]) continue;
    draw_order(random, order);
    for (const std::uint32_t index : order) {
      if (placement.held(gpu) >= slots[gpu]) break;
      const std::uint32_t layer = index / shape.experts, expert = index % shape.experts;
      if (!placement.on_server(placement.server_of(gpu), layer, expert)) placement.place(gpu, layer, expert);
    }
  }
  return placement;
}

}  // namespace

PlacementPolicyEntry redundance_entry() {
  return {.info = {.name = "redundance",
                   .help = "every expert once, then random experts up to each GPU's memory",
                   .source = "Prism, arXiv 2508.12851, section IV-A"},
          .place = place_redundance};
}

}  // namespace moelab
