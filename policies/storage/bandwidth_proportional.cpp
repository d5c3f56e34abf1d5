// bandwidth-proportional: FluxMoE's bandwidth-balanced split (Liu et al., section 4.2, Eq. 8).
//
//   x_k = B_k / sum of B over all backends: share of each layer's experts on backend k, so that all backends
//   are done at the same time (Eq. 7)
//
// Whole experts: one by one, each to the backend that would be done first with it, that is of the least
// (n_k + 1) / B_k: D'Hondt's way of sharing out seats. No whole split has a shorter longest load (the last
// expert of the backend done last went there because all others would have been done no sooner with it), and
// no backend could take one expert more and still be done before the one done last: they finish together to
// within one expert. Equal: the one of fewer GPU bytes a byte, then the faster, then the first. All layers
// are split alike.
//
// Beyond the paper, which lets shares be any size: where a backend's capacity or the GPU budget does not hold
// its share, the rest goes to the others in proportion again, by the same rule: a backend without room, or
// whose next expert would leave no places within the budget for the rest, takes no more. What is left over
// then goes to some layers and not to others, one expert apart. To be as fast as whole experts can be,
// backends also take no more than they can load in the least time in which every layer can be loaded at all
// (split_solver.hpp): with two kinds of GPU memory, the proportional share of the faster, larger kind can
// keep more experts off the GPU than it saves. A backend of infinite bandwidth, as resident experts have,
// takes all there is room for: the limit of the equation.
// What is least is the slowest layer's load. The sum over the layers is least too with up to two backends, or
// where neither capacity nor budget binds; else whole experts can keep it above the least in rare cases.
#include "policies/storage/split_check.hpp"
#include "policies/storage/split_solver.hpp"

namespace moelab {
namespace {

StorageSplit split_bandwidth_proportional(const StorageShape& shape, const PolicyParameters&) {
  return SplitSolver(shape, "bandwidth-proportional").fastest();
}

}  // namespace

StoragePolicyEntry bandwidth_proportional_entry() {
  return {.info = {.name = "bandwidth-proportional",
                   .help = "each layer's experts shared out by bandwidth: all backends are done together",
                   .source = "FluxMoE section 4.2, Eq. 8"},
          .split = split_bandwidth_proportional};
}

}  // namespace moelab
