#include "tests/policies/moe_infinity_reference.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "policies/cache/cache.hpp"
#include "policies/prefetch/activation_history.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "tests/random_runs.hpp"

namespace moelab::moe_infinity_test {
namespace {

std::uint32_t below(std::mt19937_64& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

// `k` draws with repetition: 1 to k distinct experts in ascending order, 1 to 3 tokens each.
std::vector<ExpertUse> random_uses(std::mt19937_64& random, std::uint32_t experts, std::uint32_t k) {
  std::set<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < k; ++i) chosen.insert(below(random, experts));
  std::vector<ExpertUse> uses;
  for (const std::uint32_t expert : chosen)
    uses.push_back({.object = expert, .tokens = 1 + below(random, 3)});
  return uses;
}

constexpr double kExpertBytes = 3.3;  // not a power of two: capacity is a rounded quotient

CacheShape cache_shape(std::uint32_t layers, std::uint32_t experts, std::uint32_t capacity) {
  CacheShape shape;
  shape.objects = layers * experts;
  shape.layers = layers;
  shape.capacity_bytes = capacity * kExpertBytes;
  shape.bytes[index(State::F)] = kExpertBytes;
  return shape;
}

std::unique_ptr<CachePolicy> make_cache(std::uint32_t layers, std::uint32_t experts, std::uint32_t capacity,
                                        const PolicyParameters& parameters = {}) {
  return find_cache_policy("moe-infinity")->make(cache_shape(layers, experts, capacity), parameters);
}

std::set<std::uint32_t> kept_in(const CachePolicy& cache, std::uint32_t objects) {
  std::set<std::uint32_t> kept;
  for (std::uint32_t object = 0; object < objects; ++object)
    if (cache.state(object) == State::F) kept.insert(object);
  return kept;
}

std::vector<Fetch> gate(PrefetchPolicy& policy, std::uint32_t layer, std::vector<ExpertUse> uses) {
  std::vector<Fetch> fetches;
  policy.after_gate(layer, uses, fetches);
  return fetches;
}

}  // namespace

// By hand. Past 0 routes layer 0 to expert 0 and layer 1 to expert 0; past 1 to experts 1 and 1 with more
// tokens. A running request with 3 tokens on expert 0 and 4 on expert 1 of layer 0 has cosines 3/5 and 4/5
// there and an empty layer 1: similarities 0.3 and 0.4. Layer 1 on expert 0 then adds cosines 1 and 0.
TEST_CASE("activation history: similarity of a request to two past ones, layer by layer") {
  ActivationHistory history(2, 2, 4);
  const auto add = [&](std::uint32_t layer, std::uint32_t expert, std::uint32_t tokens) {
    const ExpertUse use{.object = expert, .tokens = tokens};
    history.add(layer, std::span(&use, 1));
  };
  add(0, 0, 1);
  add(1, 0, 1);
  history.finish();
  add(0, 1, 7);
  add(1, 1, 7);
  history.finish();
  REQUIRE(history.size() == 2);
  add(0, 0, 3);
  add(0, 1, 4);
  CHECK(history.similarity(0) == Approx(0.3).margin(1e-12));
  CHECK(history.similarity(1) == Approx(0.4).margin(1e-12));
  CHECK(history.nearest() == 1);
  add(1, 0, 2);
  CHECK(history.similarity(0) == Approx(0.8).margin(1e-12));
  CHECK(history.similarity(1) == Approx(0.4).margin(1e-12));
  CHECK(history.nearest() == 0);
  history.finish();
  history.finish();  // a request without a token leaves no trace
  CHECK(history.size() == 3);
}

// By hand. Room for two: [9, 1] and [1, 9] on one layer. [8, 2] has cosine 74/sqrt(82*68) = 0.991 with the
// first and 26/sqrt(82*68) = 0.348 with the second: it takes the first one's place and the collection stays
// diverse.
TEST_CASE("activation history: a full collection gives up the entry nearest to the new one") {
  ActivationHistory history(1, 2, 2);
  const auto request = [&](std::uint32_t first, std::uint32_t second) {
    const std::vector<ExpertUse> uses = {{.object = 0, .tokens = first}, {.object = 1, .tokens = second}};
    history.add(0, uses);
    history.finish();
  };
  request(9, 1);
  request(1, 9);
  request(8, 2);
  REQUIRE(history.size() == 2);
  CHECK(history.past(0).row(0)[0] == 8);
  CHECK(history.past(0).row(0)[1] == 2);
  CHECK(history.past(1).row(0)[0] == 1);
  CHECK(history.past(1).row(0)[1] == 9);
}

TEST_CASE("activation history: incremental similarities equal the definition") {
  std::mt19937_64 random(11);
  for (int instance = 0; instance < moelab::test::random_runs(200); ++instance) {
    const std::uint32_t layers = 1 + below(random, 5);
    const std::uint32_t experts = 1 + below(random, 7);
    const std::uint32_t capacity = 1 + below(random, 6);
    ActivationHistory history(layers, experts, capacity);
    NaivePrefetch naive{.layers = layers,
                        .experts = experts,
                        .collection = capacity,
                        .layers_ahead = 0,
                        .fetches = 0,
                        .epsilon = 0};
    for (int request = 0; request < 10; ++request) {
      const std::uint32_t steps = below(random, 4);
      for (std::uint32_t step = 0; step < steps; ++step)
        for (std::uint32_t layer = 0; layer < layers; ++layer) {
          const std::vector<ExpertUse> uses = random_uses(random, experts, 3);
          history.add(layer, uses);
          naive.after_gate(layer, uses);
          REQUIRE(history.size() == naive.past.size());
          for (std::uint32_t k = 0; k < history.size(); ++k)
            REQUIRE(history.similarity(k) == naive_cosine_sum(naive.running, naive.past[k]) / layers);
        }
      history.finish();
      naive.begin_request();
    }
  }
}

// By hand, 4 layers of 4 experts. The past request sent 3 of 4 tokens of layer 1 to expert 2 and one to
// expert 0, all of layer 2 to expert 1, all of layer 3 to expert 3. After layer 0 of a new one, with L = 4
// and epsilon 0: (1,2): 3/4 * 3/4 = 0.5625; (2,1): 1 * 2/4 = 0.5; (3,3): 1 * 1/4 = 0.25; (1,0): 1/4 * 3/4 =
// 0.1875. After layer 1: (2,1): 3/4, (3,3): 2/4.
TEST_CASE("moe-infinity prefetch: priorities by hand, and no wish before a request has been seen") {
  const auto policy =
      find_prefetch_policy("moe-infinity")->make({.layers = 4, .experts = 4, .top_k = 1}, {{"epsilon", 0}});
  policy->begin_request();
  policy->begin_step();
  CHECK(gate(*policy, 0, {{.object = 1, .tokens = 4}}).empty());
  CHECK(gate(*policy, 1, {{.object = 0, .tokens = 1}, {.object = 2, .tokens = 3}}).empty());
  CHECK(gate(*policy, 2, {{.object = 1, .tokens = 4}}).empty());
  CHECK(gate(*policy, 3, {{.object = 3, .tokens = 4}}).empty());
  policy->begin_request();
  policy->begin_step();
  CHECK(gate(*policy, 0, {{.object = 1}}) == std::vector<Fetch>{{1, 2}, {2, 1}, {3, 3}, {1, 0}});
  CHECK(gate(*policy, 1, {{.object = 2}}) == std::vector<Fetch>{{2, 1}, {3, 3}});
  CHECK(gate(*policy, 2, {{.object = 1}}) == std::vector<Fetch>{{3, 3}});
  CHECK(gate(*policy, 3, {{.object = 3}}).empty());
}

// Same past; epsilon > 0 wishes the rest too, below those it used: nearer layers first, then lower experts.
TEST_CASE("moe-infinity prefetch: epsilon appends what the match never used; limits cut the list") {
  const auto run = [](const PolicyParameters& parameters) {
    const auto policy =
        find_prefetch_policy("moe-infinity")->make({.layers = 3, .experts = 3, .top_k = 1}, parameters);
    for (std::uint32_t layer = 0; layer < 3; ++layer) gate(*policy, layer, {{.object = layer}});
    policy->begin_request();
    return gate(*policy, 0, {{.object = 0}});
  };
  CHECK(run({}) == std::vector<Fetch>{{1, 1}, {2, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}});
  CHECK(run({{"fetches", 3}}) == std::vector<Fetch>{{1, 1}, {2, 2}, {1, 0}});
  CHECK(run({{"layers_ahead", 1}}) == std::vector<Fetch>{{1, 1}, {1, 0}, {1, 2}});
  CHECK(run({{"epsilon", 0}, {"fetches", 0}}) == std::vector<Fetch>{{1, 1}, {2, 2}});
}

// Two kinds of prompts with fixed habits that share layer 0 and part from layer 1 on. Once each has been
// seen, layer 1 tells them apart, so from then on the wishes for every later layer are exactly the experts it
// will use: recall 1 with nothing wasted (epsilon 0). Layer 1 itself can only be guessed.
TEST_CASE("moe-infinity prefetch: two archetypes are told apart and fetched whole") {
  constexpr std::uint32_t kLayers = 6;
  const auto routed = [](int kind, std::uint32_t layer) {
    const std::uint32_t first = layer == 0 ? 0 : (kind == 0 ? 2 : 10) + layer % 3;
    return std::vector<ExpertUse>{{.object = first}, {.object = first + 3}};
  };
  const auto policy = find_prefetch_policy("moe-infinity")
                          ->make({.layers = kLayers, .experts = 16, .top_k = 2}, {{"epsilon", 0}});
  std::mt19937_64 random(12);
  for (int request = 0; request < 40; ++request) {
    const int kind = request < 2 ? request : static_cast<int>(random() % 2);
    policy->begin_request();
    for (int step = 0; step < 5; ++step) {
      policy->begin_step();
      for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
        const std::vector<Fetch> fetches = gate(*policy, layer, routed(kind, layer));
        if (request < 2 || (step == 0 && layer == 0)) continue;
        std::set<std::pair<std::uint32_t, std::uint32_t>> wished;
        for (const Fetch& fetch : fetches) wished.insert({fetch.layer, fetch.expert});
        std::set<std::pair<std::uint32_t, std::uint32_t>> needed;
        for (std::uint32_t m = layer + 1; m < kLayers; ++m)
          for (const ExpertUse& use : routed(kind, m)) needed.insert({m, use.object});
        REQUIRE(wished == needed);
      }
    }
  }
}

TEST_CASE("moe-infinity prefetch equals its definition on random traces") {
  std::mt19937_64 random(13);
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    NaivePrefetch naive{.layers = 1 + below(random, 6),
                        .experts = 1 + below(random, 8),
                        .collection = 1 + below(random, 5),
                        .layers_ahead = below(random, 4),
                        .fetches = below(random, 12),
                        .epsilon = random() % 3 == 0   ? 0
                                   : random() % 2 == 0 ? 1e-8
                                                       : 0.1};
    const auto policy = find_prefetch_policy("moe-infinity")
                            ->make({.layers = naive.layers, .experts = naive.experts, .top_k = 2},
                                   {{"collection", static_cast<double>(naive.collection)},
                                    {"layers_ahead", naive.layers_ahead},
                                    {"fetches", static_cast<double>(naive.fetches)},
                                    {"epsilon", naive.epsilon}});
    for (int step = 0; step < 24; ++step) {
      if (random() % 3 == 0) {
        policy->begin_request();
        naive.begin_request();
      }
      policy->begin_step();
      for (std::uint32_t layer = 0; layer < naive.layers; ++layer) {
        const std::vector<ExpertUse> uses = random_uses(random, naive.experts, 2);
        REQUIRE(gate(*policy, layer, uses) == naive.after_gate(layer, uses));
      }
    }
  }
}

// By hand, 2 layers of 3 experts (objects 0-2 and 3-5), room for 3, epsilon 1e-6.
TEST_CASE("moe-infinity cache: who leaves, by hand") {
  const auto cache = make_cache(2, 3, 3);
  cache->begin_request();
  cache->use({.object = 0, .tokens = 3});
  cache->use({.object = 1, .tokens = 1});
  cache->use({.object = 3, .tokens = 1});
  CHECK(kept_in(*cache, 6) == std::set<std::uint32_t>{0, 1, 3});
  CHECK(cache->bytes_held() == 3 * kExpertBytes);
  // Ratios 3/4 and 1/4 in layer 0 (weight 1), 3/3 in layer 1 (weight 1/2; its sum counts the use of 4
  // already, so 1/3 for object 3): priorities 0.75, 0.25, 1/6. Object 3 leaves for 4.
  cache->use({.object = 4, .tokens = 2});
  CHECK(kept_in(*cache, 6) == std::set<std::uint32_t>{0, 1, 4});
  // Layer 0 now sums to 6: 3/6, 1/6; object 4 has 2/3 * 1/2 = 1/3. Object 1 leaves for 2.
  cache->use({.object = 2, .tokens = 2});
  CHECK(kept_in(*cache, 6) == std::set<std::uint32_t>{0, 2, 4});
  // A new request knows no ratios: epsilon * 1 for layer 0, epsilon / 2 for layer 1. Object 4 leaves for 3,
  // whose own ratio is 1; then in layer 0 the one used longest ago leaves, object 0.
  cache->begin_request();
  cache->use({.object = 3});
  CHECK(kept_in(*cache, 6) == std::set<std::uint32_t>{0, 2, 3});
  cache->use({.object = 5});
  CHECK(kept_in(*cache, 6) == std::set<std::uint32_t>{2, 3, 5});
}

// Room for 2 in 2 layers of 2, both used by the request: the formula ranks them above the unused object 2.
TEST_CASE("moe-infinity cache: a prefetched expert is protected until its layer has passed, or not at all") {
  for (const bool protect : {true, false}) {
    const auto cache = make_cache(2, 2, 2, {{"protect_prefetched", protect ? 1.0 : 0.0}});
    cache->begin_request();
    cache->begin_step({});
    CHECK(cache->insert(2));  // there is room
    CHECK(cache->insert(2));  // and it is there
    cache->use({.object = 0});
    cache->begin_step({.layer = 1});
    cache->use({.object = 2});
    cache->begin_step({});
    CHECK(cache->insert(3) == protect);
    if (!protect) continue;
    // Layer 1's only count is on object 2: 1 * 1/2, below object 0's 1 * 1. It made room for 3.
    CHECK(kept_in(*cache, 4) == std::set<std::uint32_t>{0, 3});
    // 0.5 for each expert of layer 0, and yet the protected 3, with ratio 0, outlives object 0.
    cache->use({.object = 1});
    CHECK(kept_in(*cache, 4) == std::set<std::uint32_t>{1, 3});
    // Layer 1 runs and does not use it: once the next layer begins it counts for what it is.
    cache->begin_step({.layer = 1});
    cache->begin_step({});
    cache->use({.object = 0});
    CHECK(kept_in(*cache, 4) == std::set<std::uint32_t>{0, 1});
  }
}

// With nothing unprotected left a used expert still gets in, at the cost of the later layer's; a further
// prefetch only in place of one that the formula puts below it.
TEST_CASE("moe-infinity cache: a pool full of unused prefetches") {
  const auto cache = make_cache(3, 1, 2);
  CHECK(cache->insert(1));
  CHECK(cache->insert(2));
  CHECK(cache->insert(0));
  CHECK(kept_in(*cache, 3) == std::set<std::uint32_t>{0, 1});
  CHECK_FALSE(cache->insert(2));
  cache->use({.object = 2});
  CHECK(kept_in(*cache, 3) == std::set<std::uint32_t>{0, 2});
}

TEST_CASE("moe-infinity cache: capacity is whole experts, in whatever state they are kept") {
  CacheShape shape = cache_shape(2, 4, 0);
  shape.kept_as = State::S;
  shape.bytes[index(State::S)] = 2;
  shape.capacity_bytes = 7.9;
  const auto cache = find_cache_policy("moe-infinity")->make(shape, {});
  for (std::uint32_t object = 0; object < 8; ++object) cache->use({.object = object});
  CHECK(cache->bytes_held() == 6);
  CHECK(cache->state(7) == State::S);

  const auto none = make_cache(2, 4, 0);
  none->use({.object = 3});
  CHECK_FALSE(none->insert(2));
  CHECK(none->bytes_held() == 0);
  CHECK(none->state(3) == State::M);

  const auto all = make_cache(2, 4, 1000000);
  for (std::uint32_t object = 0; object < 8; ++object) all->use({.object = object});
  CHECK(kept_in(*all, 8).size() == 8);
}

TEST_CASE("moe-infinity cache: entry and refused parameters") {
  const CachePolicyEntry entry = *find_cache_policy("moe-infinity");
  CHECK(entry.info.name == "moe-infinity");
  CHECK(entry.per_model);
  CHECK_FALSE(entry.needs_future);
  CHECK_FALSE(entry.uses_pools);
  CHECK_THROWS_AS(entry.make(cache_shape(1, 2, 1), {{"epsilon", -1}}), InputError);
  CHECK_THROWS_AS(entry.make(cache_shape(1, 2, 1), {{"protect_prefetched", 0.5}}), InputError);
}

// Decode loops with prefetches in random places; after every call the kept sets are the same, never above
// capacity, and a twin of the policy holds the same again.
TEST_CASE("moe-infinity cache equals its definition on random traces") {
  std::mt19937_64 random(14);
  for (int instance = 0; instance < moelab::test::random_runs(400); ++instance) {
    NaiveCache naive{.layers = 1 + below(random, 5),
                     .experts = 1 + below(random, 7),
                     .capacity = below(random, 16),
                     .epsilon = random() % 3 == 0   ? 0
                                : random() % 2 == 0 ? 1e-6
                                                    : 0.2,
                     .protect = random() % 2 == 0};
    const std::uint32_t objects = naive.layers * naive.experts;
    const PolicyParameters parameters = {{"epsilon", naive.epsilon},
                                         {"protect_prefetched", naive.protect ? 1.0 : 0.0}};
    const auto capacity = static_cast<std::uint32_t>(naive.capacity);
    const auto cache = make_cache(naive.layers, naive.experts, capacity, parameters);
    const auto twin = make_cache(naive.layers, naive.experts, capacity, parameters);
    const auto prefetch = [&] {
      while (random() % 3 != 0) {
        const std::uint32_t object = below(random, objects);
        const bool taken = naive.insert(object);
        REQUIRE(cache->insert(object) == taken);
        REQUIRE(twin->insert(object) == taken);
      }
    };
    for (std::uint32_t step = 0; step < 30; ++step) {
      if (random() % 5 == 0) {
        naive.begin_request();
        cache->begin_request();
        twin->begin_request();
      }
      for (std::uint32_t layer = 0; layer < naive.layers; ++layer) {
        naive.begin_step(layer);
        cache->begin_step({.layer = layer});
        twin->begin_step({.layer = layer});
        prefetch();
        for (ExpertUse use : random_uses(random, naive.experts, 2)) {
          use.object += layer * naive.experts;
          naive.use(use);
          cache->use(use);
          twin->use(use);
          std::set<std::uint32_t> expected;
          for (const auto& [object, kept] : naive.kept) expected.insert(object);
          REQUIRE(kept_in(*cache, objects) == expected);
          REQUIRE(kept_in(*twin, objects) == expected);
          REQUIRE((capacity == 0 || expected.contains(use.object)));
          REQUIRE(cache->bytes_held() <= capacity * kExpertBytes);
          REQUIRE(cache->bytes_held() == static_cast<double>(expected.size()) * kExpertBytes);
        }
      }
    }
  }
}

}  // namespace moelab::moe_infinity_test
