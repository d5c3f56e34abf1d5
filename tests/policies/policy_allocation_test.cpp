// Policies allocate nothing once they have seen the largest pass: every allocation of this program is
// counted.
#include <catch2/catch.hpp>
#include <random>

#include "policies/batching/batching.hpp"
#include "policies/cache/priority_cache.hpp"
#include "policies/residency/residency.hpp"
#include "tests/counted_allocations.hpp"
#include "tests/policies/gates_ahead.hpp"

namespace moelab::policy_allocation_test {

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

namespace {

struct Served {
  std::uint32_t requests = 0;
  std::uint64_t preempted = 0;
  bool operator==(const Served&) const = default;
};

/// 4,000 steps of up to 256 requests while 300 others wait, then all that are left.
Served serve_stream(BatchingPolicy& policy, BatchStep& step) {
  std::mt19937_64 random(29);
  Served served;
  for (int steps = 0;; ++steps) {
    while (steps < 4000 && policy.use().waiting < 300)
      policy.arrive({.id = served.requests++,
                     .prompt_tokens = 1 + static_cast<std::uint32_t>(random() % 300),
                     .output_tokens = 1 + static_cast<std::uint32_t>(random() % 300),
                     .prefilled = random() % 4 == 0});
    if (!policy.form(step)) return served;
    policy.complete();
    served.preempted += step.dropped.size() + step.swapped_out.size();
  }
}

}  // namespace

TEST_CASE("batching allocates nothing once warm, and keeps nothing of requests that left") {
  if (!kCounts) {
    WARN("skipped: allocations are not counted under sanitizers");
    return;
  }
  const BatchingShape shape{.kv = {16, 2500, 500}, .max_requests = 256, .max_tokens = 2048};
  for (const char* const name : {"static", "continuous", "sglang"})
    for (const double swap : {0.0, 1.0})
      for (const double chunked : {0.0, 1.0}) {
        PolicyParameters parameters;
        if (name == std::string_view("continuous")) parameters = {{"swap", swap}, {"chunked", chunked}};
        if (name == std::string_view("sglang"))  // nothing is expected, so that requests are retracted
          parameters = {{"schedule_conservativeness", 0.1},
                        {"disable_radix_cache", swap},
                        {"enable_mixed_chunk", chunked}};
        const auto policy = find_batching_policy(name)->make(shape, parameters);
        BatchStep step;
        const Served first = serve_stream(*policy, step);
        const std::uint64_t before = allocations;
        const Served again = serve_stream(*policy, step);  // the same: no queue is longer than it was
        const std::uint64_t after = allocations;
        CHECK(after == before);
        CHECK(again == first);
        CHECK(policy->use() == KvUse{});
        CHECK(first.requests > 1000);
        // sglang learns from the first ones what to expect.
        const std::uint64_t some = name == std::string_view("sglang") ? 1 : 100;
        CHECK((name == std::string_view("static") ? first.preempted == 0 : first.preempted > some));
      }
}

TEST_CASE("a priority cache allocates nothing once made") {
  if (!kCounts) {
    WARN("skipped: allocations are not counted under sanitizers");
    return;
  }
  class Recent final : public PriorityCache {
   public:
    explicit Recent(const CacheShape& shape) : PriorityCache(shape) {}
    void prioritize(const CacheFeatures& features, std::span<double> priorities) override {
      for (std::uint32_t o = 0; o < priorities.size(); ++o)
        priorities[o] = features.of(o, CacheFeature::recent_frequency);
    }
  };
  constexpr std::uint32_t kLayers = 6, kExperts = 64;
  CacheShape shape;
  shape.objects = kLayers * kExperts;
  shape.layers = kLayers;
  shape.capacity_bytes = 800;
  shape.bytes = {10, 7, 5, 2, 0};
  Recent cache(shape);
  std::mt19937_64 random(31);
  std::vector<ExpertUse> uses(16);
  const std::uint64_t before = allocations;
  int changes = 0;
  for (std::uint32_t step = 0; step < 600; ++step) {
    const std::uint32_t first = step % kLayers * kExperts;
    if (step % 60 == 0) cache.begin_request();
    cache.begin_step({step % kLayers, 16, step % 60 < kLayers ? 16U : 0U});
    for (std::uint32_t i = 0; i < uses.size(); ++i)
      uses[i] = {.object = first + 4 * i + static_cast<std::uint32_t>(random() % 4)};
    for (const ExpertUse& use : uses) changes += cache.state(use.object) == State::M ? 1 : 0;
    cache.use_all(uses);
    cache.insert(static_cast<std::uint32_t>(random() % shape.objects));
  }
  CHECK(allocations == before);
  CHECK(changes > 1000);
}

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

}  // namespace moelab::policy_allocation_test
