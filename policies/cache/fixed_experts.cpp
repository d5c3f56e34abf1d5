// fixed-experts: the same number of experts of every layer is on the GPU, and never changes.
//
//   held = the first n experts of the layer, by number; n: as many as fit
//
// The baseline of SMoE's ablation (Zhu et al., arXiv 2508.18983, section VI-C): "offloading all experts to
// CPU memory while keeping some experts and common parameters in GPU memory", without a caching strategy. The
// paper does not say which experts. Memory is shared evenly between layers and nothing is known of
// popularity: by number is as good as any other choice, since numbers mean nothing.
#include <numeric>

#include "policies/cache/cache.hpp"
#include "policies/cache/fixed_set.hpp"

namespace moelab {
namespace {

std::unique_ptr<CachePolicy> make_fixed_experts(const CacheShape& shape, const PolicyParameters&) {
  std::vector<std::uint32_t> by_number(shape.objects);
  std::iota(by_number.begin(), by_number.end(), 0U);
  return std::make_unique<FixedSet>(shape, by_number);
}

}  // namespace

CachePolicyEntry fixed_experts_entry() {
  return {
      .info = {.name = "fixed-experts",
               .help = "the first experts of every layer are there from the start; nothing ever changes",
               .source = "SMoE (Zhu et al. 2025, arXiv 2508.18983), section VI-C: the ablation's baseline"},
      .preloads = true,
      .make = make_fixed_experts};
}

}  // namespace moelab
