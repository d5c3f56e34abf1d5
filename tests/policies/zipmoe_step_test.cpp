// ZipMoE's cache in steps of several experts, which may make one another leave.
#include "tests/policies/naive_cache.hpp"

namespace moelab::zipmoe_step_test {

using namespace moelab::naive_cache;

TEST_CASE("zipmoe keeps no exponent chunks of an expert that its step found in full, and so did not read") {
  Random random(61);
  std::uint64_t came_back = 0;
  for (int instance = 0; instance < random_runs(2000); ++instance) {
    CacheShape shape;
    shape.objects = 1 + below(random, 24);
    shape.bytes = {10, 7, 5, 2, 0};
    for (std::size_t p = 0; p < 4; ++p) {  // any subset of the pools
      shape.pool_experts[p] = below(random, 2) * below(random, 1 + shape.objects / 3);
      shape.capacity_bytes += shape.pool_experts[p] * shape.bytes[p];
    }
    const auto cache = make(
        "zipmoe", shape,
        {{"margin", below(random, 4) * 0.1}, {"spill", below(random, 2)}, {"slot_counts", below(random, 2)}});
    for (const Step& step : trace_of(kKinds[instance % 4], random, shape.objects, 60)) {
      std::vector<ExpertUse> uses;
      std::vector<std::uint32_t> whole;
      cache->begin_step({});
      for (const std::uint32_t o : step) {
        uses.push_back({.object = o});
        if (cache->state(o) == State::F) whole.push_back(o);
      }
      cache->use_all(uses);
      for (const std::uint32_t o : whole) {
        REQUIRE((cache->state(o) != State::C && cache->state(o) != State::E));
        came_back += cache->state(o) != State::M;
      }
    }
  }
  CHECK(came_back > 100);
}

}  // namespace moelab::zipmoe_step_test
