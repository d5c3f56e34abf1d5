// Prefetch policies that are told of gates ahead allocate nothing once they have seen the largest pass: every
// allocation of this program is counted.
#include <catch2/catch.hpp>

#include "tests/counted_allocations.hpp"
#include "tests/policies/gates_ahead.hpp"

using namespace moelab;

TEST_CASE("prefetch from gates ahead allocates nothing once warm") {
  if (!kCounts) {
    WARN("skipped: allocations are not counted under sanitizers");
    return;
  }
  std::mt19937_64 random(23);
  const PrefetchShape shape{.layers = 6,
                            .experts = 24,
                            .top_k = 4,
                            .seed = 3,
                            .load_s = 2,
                            .gpu_s = 0.125,
                            .cpu_s = {0, 1, 1.5, 2, 2.5, 3, 3.5}};
  const std::vector<std::vector<OwnedGate>> passes{
      random_gates(random, 6, 24, 4), random_gates(random, 6, 24, 4), random_gates(random, 1, 24, 4)};
  std::vector<std::vector<GateAhead>> told;
  for (const std::vector<OwnedGate>& pass : passes) told.push_back(views(pass));
  std::vector<std::uint8_t> resident(24, 0);
  for (const char* const name : {"gate-prediction", "hybrimoe"}) {
    const auto policy = find_prefetch_policy(name)->make(shape, {{"accuracy", 0.7}});
    std::vector<Fetch> fetches;
    fetches.reserve(1000);
    std::uint64_t wished = 0, before = 0;
    for (int step = 0; step < 300; ++step) {
      if (step == 100) before = allocations;
      policy->begin_step();
      for (std::uint32_t layer = 0; layer + 1 < shape.layers; ++layer) {
        for (std::uint32_t e = 0; e < 24; ++e) resident[e] = step % 50 == 0 ? 0 : random() % 2 == 0;
        for (std::uint32_t a = 1; a <= policy->gates_ahead() && layer + a < shape.layers; ++a)
          policy->gate_ahead(layer + a, told[static_cast<std::size_t>(step) % 3], resident);
        fetches.clear();
        policy->after_gate(layer, {}, fetches);
        wished += fetches.size();
      }
    }
    CHECK(allocations == before);
    CHECK(wished > 300);  // it did something
  }
}
