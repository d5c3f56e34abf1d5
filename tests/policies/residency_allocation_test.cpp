// budget-aware allocates nothing once it has moved experts: every allocation of this program is counted.
#include <catch2/catch.hpp>

#include "policies/residency/residency.hpp"
#include "tests/counted_allocations.hpp"

namespace moelab::residency_allocation_test {

TEST_CASE("the residency planner allocates nothing once it has moved experts") {
  if (!kCounts) {
    WARN("skipped: allocations are not counted under sanitizers");
    return;
  }
  const StorageShape shape{.layers = 48,
                           .experts = 512,
                           .expert_bytes = 1.5e6,
                           .backends = {{.name = "a compressed backend with a name of some length",
                                         .bytes_per_second = 400e9,
                                         .gpu_bytes_per_byte = 0.8},
                                        {.name = "host", .bytes_per_second = 25e9}}};
  for (const double staggered : {0.0, 1.0}) {
    StorageSplit split(shape), before = split;
    const auto policy =
        find_residency_policy("budget-aware")->make({{"interval", 1}, {"staggered", staggered}});
    ResidencyState state{.compute_s = 1, .gpu_bytes = 40e9};
    REQUIRE(policy->adjust(state, split));
    const std::uint64_t allocated = allocations;
    int moves = 0;
    for (state.iteration = 1; state.iteration < 400; ++state.iteration) {
      state.compute_s = state.iteration % 100 < 50 ? 0.05 : 1;  // back to the GPU, and off it
      state.kv_bytes = state.iteration % 40 == 0 ? 30e9 : state.kv_bytes * 0.9;  // by force too
      before = split;
      moves += policy->adjust(state, split);
    }
    CHECK(allocations == allocated);
    CHECK(moves > 100);
  }
}

}  // namespace moelab::residency_allocation_test
