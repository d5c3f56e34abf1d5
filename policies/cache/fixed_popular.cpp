// fixed-popular: the experts of the whole model that an offline profile saw most are on the GPU; never
// changes.
//
//   held = the first n experts of all layers by falling uses in the profile; n: as many as fit
//
// Source: Fiddler (Kamahori et al., ICLR 2025, arXiv 2402.07033) and its code, src/fiddler/mixtral.py of
// efeslab/fiddler@00e70f0: set_expert_loc has a list of (layer, expert) "in the order of popularity,
// determined based on profile", and puts the first ones on the GPU, as many as its free memory holds.
// Ties: the earlier layer, then the smaller number.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "policies/cache/cache.hpp"
#include "policies/cache/fixed_set.hpp"

namespace moelab {
namespace {

std::unique_ptr<CachePolicy> make_fixed_popular(const CacheShape& shape, const PolicyParameters&) {
  std::vector<std::uint32_t> order(shape.objects);
  std::iota(order.begin(), order.end(), 0U);
  if (!shape.profile.empty()) {
    assert(shape.profile.size() == shape.objects);
    std::stable_sort(order.begin(), order.end(), [&shape](std::uint32_t a, std::uint32_t b) {
      return shape.profile[a] > shape.profile[b];
    });
  }
  return std::make_unique<FixedSet>(shape, order);
}

}  // namespace

CachePolicyEntry fixed_popular_entry() {
  return {.info = {.name = "fixed-popular",
                   .help = "the model's most used experts by an offline profile are there from the start; "
                           "nothing ever changes",
                   .source = "Fiddler (Kamahori et al., ICLR 2025, arXiv 2402.07033)"},
          .per_model = true,
          .needs_profile = true,
          .preloads = true,
          .make = make_fixed_popular};
}

}  // namespace moelab
