// random: each expert on one random GPU with room (Prism's naive collaboration between servers).
//
//   experts of all layers in random order; each on a random GPU of those with a free slot, `copies` times, on
//   different servers; what finds no such GPU gets its place as in coverage.hpp
//
// The counts decide nothing but which expert makes room there. The draws come from the shape's seed.
#include "policies/placement/random_placement.hpp"

#include <numeric>

#include "policies/placement/coverage.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

Placement place_random(const PlacementShape& shape, const ActivationCounts& counts, const PolicyParameters&) {
  check_placement_shape(shape);
  check_activation_counts(shape, counts);
  PlacementRandom random(shape.seed);
  return place_randomly(shape, counts, random);
}

}  // namespace

Placement place_randomly(const PlacementShape& shape, const ActivationCounts& counts,
                         PlacementRandom& random) {
  const std::vector<std::uint64_t> slots = gpu_slots(shape);
  Placement placement(shape);
  std::vector<std::uint32_t> order(std::size_t{shape.layers} * shape.experts), open;
  std::iota(order.begin(), order.end(), 0U);
  draw_order(random, order);
  for (const std::uint32_t index : order)
    for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
      const std::uint32_t layer = index / shape.experts, expert = index % shape.experts;
      open.clear();
      for (std::uint32_t gpu = 0; gpu < placement.gpus(); ++gpu)
        if (placement.held(gpu) < slots[gpu] && !placement.on_server(placement.server_of(gpu), layer, expert))
          open.push_back(gpu);
      if (!open.empty()) placement.place(open[draw_below(random, open.size())], layer, expert);
    }
  cover(shape, counts, placement);
  return placement;
}

PlacementPolicyEntry random_placement_entry() {
  return {.info = {.name = "random",
                   .help = "each expert on one random GPU with room; the null member of the family",
                   .source = "Prism, arXiv 2508.12851, section II: naive collaboration"},
          .place = place_random};
}

}  // namespace moelab
