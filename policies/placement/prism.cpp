// prism: as many experts of a layer as its activations are diverse, the most used ones (Prism, arXiv
// 2508.12851, Algorithms 1 and 2).
//
//   Algorithm 1: counts. C_n: experts that fit server n; v_{n,l}: entropy of its counts in layer l
//     N_{n,l} = min(floor(C_n * v_{n,l} / sum_l v_{n,l}), E)
//     while a layer l has less than copies * E over all servers:
//       each server n, largest memory first: one from l', the layer with most, to l
//   Algorithm 2: experts. A_n^l = the N_{n,l} most used of layer l on server n
//     while an expert of the layer misses a copy: each server, fewest duplicates first, puts the most used
//       such expert in the place of its least used duplicate
//   fill: the room left on each server gets the experts that it uses most and does not have
//
// The paper's loops leave cases open or do not end in them. What happens here:
// - All entropies of a server are 0 (no counts yet, or one expert a layer): 0 / 0. All layers count alike.
// - A count above E a layer (few layers of high entropy, much memory): no more than E; the rest is room left.
// - The layer with most has no more than it needs: taking from it would only move the lack, or take from l to
//   give to l, for ever. Only layers with more than they need lend, and only to servers with less than E of
//   layer l. Where no layer has more, room left is taken: of layer l, or, on a server that has all of l, of
//   the layer with fewest of those it has not all of, which then lends on another server. As the shape has
//   room for coverage, one of these is always possible, and each brings all layers nearer to their need.
// - Duplicates are taken as they are at the time, not at the start of a pass: two servers could each replace
//   their copy of one duplicate, and lose it, or both take the same lacking expert, and so on in turn. A
//   server without a duplicate is left out. Some server always has one: with copies * E in the layer and an
//   expert on fewer than `copies` servers, another is on more, so on one that has not the first.
// - A duplicate is an expert on more than `copies` servers, which the paper sets to 1.
// - C_n adds up whole experts GPU by GPU; the paper divides the sum of the memory, which may not fit.
// Deviation: floors leave up to a slot a layer unused, and caps more. `fill` = 1, the default, uses it;
// 0 leaves it, as the paper does. With 0 a layer in which a server uses one expert only has entropy 0 and
// no slot there, however much it is used.
//
// Theorem 1 (at least 1 - 1/e of the best local mass with as many experts) holds for the choice within each
// layer, where taking the most used is exactly optimal. It does not hold for the choice of N_{n,l}: entropy
// says how many experts a layer uses, not how much is lost without them. One expert only in a layer, and
// E even ones in the other: all C_n go to the second, C_n / E of its mass, where the best has 1 more. What
// does hold: mass >= best mass * min over layers of N_{n,l} / N*_{n,l}, N* being the best counts, since the
// mass of the most used k is concave in k. Deviation: `least_share` = 1 - 1/e makes the theorem true. Before
// coverage is seen to, a server whose counts give less than that share of the best mass moves slots, one by
// one, from the layer that loses least to the one that gains most, which ends at the best counts. 0, the
// default, leaves the counts as the paper has them; 1 makes them the best.
//
// Lemma 1, the reason for entropy, holds up to a factor of 2: k >= 2^(H - delta log E - h(min(delta, 1/2))),
// h the binary entropy, by Fano's inequality. As printed, without h, it does not: mass 1 - delta on one
// expert, the rest even.
#include "policies/placement/prism.hpp"

#include <algorithm>
#include <stdexcept>

#include "policies/checked_parameter.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

/// Algorithm 2's second loop, of one layer.
class LayerRepair {
 public:
  LayerRepair(const PlacementShape& shape, const ActivationCounts& counts, ServerSets& sets,
              std::uint32_t layer)
      : shape_(shape), counts_(counts), sets_(sets), layer_(layer) {}

  void run() {
    while (lacking()) {
      bool any = false;
      for (const std::uint32_t server : fewest_duplicates_first()) any = replace_on(server) || any;
      if (!any) throw std::logic_error("prism: counts that do not cover a layer");
    }
  }

 private:
  bool lacks(std::uint32_t expert) const { return sets_.copies(layer_, expert) < shape_.copies; }
  bool lacking() const {
    for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
      if (lacks(expert)) return true;
    return false;
  }
  bool duplicate_on(std::size_t server, std::uint32_t expert) const {
    return sets_.copies(layer_, expert) > shape_.copies && sets_.has(server, layer_, expert);
  }

  /// Servers with duplicates.
  std::vector<std::uint32_t> fewest_duplicates_first() const {
    std::vector<std::uint32_t> duplicates(sets_.servers(), 0), order;
    for (std::uint32_t server = 0; server < sets_.servers(); ++server) {
      for (std::uint32_t expert = 0; expert < shape_.experts; ++expert)
        duplicates[server] += duplicate_on(server, expert) ? 1 : 0;
      if (duplicates[server] > 0) order.push_back(server);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return duplicates[a] < duplicates[b]; });
    return order;
  }

  bool replace_on(std::size_t server) {
    const std::span<const double> used = counts_.layer(server, layer_);
    const std::uint32_t none = shape_.experts;
    std::uint32_t comes = none, leaves = none;
    for (std::uint32_t expert = 0; expert < none; ++expert) {
      if (lacks(expert) && !sets_.has(server, layer_, expert) &&
          (comes == none || used[expert] > used[comes]))
        comes = expert;
      if (duplicate_on(server, expert) && (leaves == none || used[expert] < used[leaves])) leaves = expert;
    }
    if (comes == none || leaves == none) return false;
    sets_.erase(server, layer_, leaves);
    sets_.insert(server, layer_, comes);
    return true;
  }

  const PlacementShape& shape_;
  const ActivationCounts& counts_;
  ServerSets& sets_;
  const std::uint32_t layer_;
};

PolicyInfo prism_info() {
  return {.name = "prism",
          .help = "experts of a layer in proportion to the entropy of its activations, the most used ones",
          .source = "Prism, arXiv 2508.12851, Algorithms 1 and 2",
          .parameters = {{.name = "least_share",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "of the best local mass of as many experts, before coverage; 0: the paper"},
                         {.name = "fill",
                          .unit = "",
                          .default_value = 1,
                          .low = 0,
                          .high = 1,
                          .help = "1: room that the proportions leave gets the most used experts; 0: as the "
                                  "paper, stays empty"}}};
}

Placement place_prism(const PlacementShape& shape, const ActivationCounts& counts,
                      const PolicyParameters& parameters) {
  check_placement_shape(shape, true);
  check_activation_counts(shape, counts);
  const bool fill = checked_count(prism_info(), parameters, "fill") != 0;
  LayerQuotas layer_counts = entropy_layer_counts(shape, counts);
  raise_local_mass(counts, checked_parameter(prism_info(), parameters, "least_share"), layer_counts);
  rebalance_layer_counts(shape, layer_counts);
  ServerSets sets = most_used_experts(shape, counts, layer_counts);
  repair_coverage(shape, counts, sets);
  if (fill) fill_with_most_used(shape, counts, sets);
  return deal_to_gpus(shape, counts, sets);
}

}  // namespace

ServerSets most_used_experts(const PlacementShape& shape, const ActivationCounts& counts,
                             const LayerQuotas& layer_counts) {
  ServerSets sets(shape);
  for (std::size_t server = 0; server < layer_counts.size(); ++server)
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      if (layer_counts[server][layer] == 0) continue;
      const std::vector<std::uint32_t> preferred = by_descending(counts.layer(server, layer));
      for (std::uint32_t k = 0; k < layer_counts[server][layer]; ++k)
        sets.insert(server, layer, preferred[k]);
    }
  return sets;
}

void repair_coverage(const PlacementShape& shape, const ActivationCounts& counts, ServerSets& sets) {
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) LayerRepair(shape, counts, sets, layer).run();
}

PlacementPolicyEntry prism_entry() {
  return {.info = prism_info(), .place = place_prism};
}

}  // namespace moelab
