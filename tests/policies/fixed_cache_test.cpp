// Caches whose experts never change.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "tests/policies/small_caches.hpp"
#include "tests/random_runs.hpp"

namespace moelab::fixed_cache_test {

using namespace moelab::test;

namespace {

CacheShape shape_of(std::uint32_t layers, std::uint32_t experts, std::uint32_t places) {
  CacheShape shape = test::shape_of(layers * experts, places);
  shape.layers = layers;
  return shape;
}

std::unique_ptr<CachePolicy> make(std::string_view name, const CacheShape& shape,
                                  const PolicyParameters& parameters = {}) {
  return find_cache_policy(name)->make(shape, parameters);
}

/// Whatever a serving loop may tell a cache.
void disturb(CachePolicy& cache, const CacheShape& shape, Random& random) {
  const std::uint32_t object = below(random, shape.objects);
  switch (below(random, 5)) {
    case 0:
      cache.begin_request();
      break;
    case 1:
      cache.begin_step({.layer = below(random, shape.layers)});
      break;
    case 2:
      CHECK(cache.insert(object) == (cache.state(object) != State::M));
      break;
    default:
      cache.use({.object = object, .tokens = 3, .score = 0.5F});
      break;
  }
}

}  // namespace

TEST_CASE("fixed-experts: the first ones of a layer") {
  CHECK(held_by(*make("fixed-experts", shape_of(1, 6, 4)), 6) == Objects{0, 1, 2, 3});
  CHECK(held_by(*make("fixed-experts", shape_of(1, 6, 9)), 6).size() == 6);
  CHECK(held_by(*make("fixed-experts", shape_of(1, 6, 0)), 6).empty());
}

TEST_CASE("fixed-layers: whole layers from either end") {
  // 3 layers of 4 experts and room for 7: one layer, and 3 experts of the next if it may be split.
  const CacheShape shape = shape_of(3, 4, 7);
  CHECK(held_by(*make("fixed-layers", shape), 12) == Objects{8, 9, 10, 11});
  CHECK(held_by(*make("fixed-layers", shape, {{"from_last", 0}}), 12) == Objects{0, 1, 2, 3});
  CHECK(held_by(*make("fixed-layers", shape, {{"partial", 1}}), 12) == Objects{4, 5, 6, 8, 9, 10, 11});
  CHECK(held_by(*make("fixed-layers", shape, {{"from_last", 0}, {"partial", 1}}), 12) ==
        Objects{0, 1, 2, 3, 4, 5, 6});
  CHECK(held_by(*make("fixed-layers", shape_of(3, 4, 3)), 12).empty());
  CHECK(held_by(*make("fixed-layers", shape_of(3, 4, 99)), 12).size() == 12);
  for (const double value : {-1.0, 0.5, 2.0})
    CHECK_THROWS_AS(make("fixed-layers", shape, {{"from_last", value}}), InputError);
}

TEST_CASE("fixed-popular: what the profile counted most, over all layers") {
  CacheShape shape = shape_of(2, 3, 3);
  const std::vector<double> profile = {5, 0, 7, 7, 1, 5};
  shape.profile = profile;
  CHECK(held_by(*make("fixed-popular", shape), 6) == Objects{0, 2, 3});  // of 0 and 5 the first
}

TEST_CASE("fixed-popular: nothing that it leaves out was used more than what it holds") {
  Random random(1);
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    const std::uint32_t layers = 1 + below(random, 4), experts = 1 + below(random, 8);
    CacheShape shape = shape_of(layers, experts, below(random, layers * experts + 2));
    std::vector<double> profile;
    for (std::uint32_t o = 0; o < shape.objects; ++o) profile.push_back(below(random, 6));
    shape.profile = profile;
    const Objects held = held_by(*make("fixed-popular", shape), shape.objects);
    REQUIRE(held.size() ==
            std::min<std::size_t>(static_cast<std::size_t>(shape.capacity_bytes / 10), shape.objects));
    for (const std::uint32_t in : held)
      for (std::uint32_t out = 0; out < shape.objects; ++out)
        if (held.count(out) == 0)
          REQUIRE((profile[in] > profile[out] || (profile[in] == profile[out] && in < out)));
  }
}

TEST_CASE("fixed caches never change, and hold no more than fits") {
  Random random(2);
  for (int instance = 0; instance < moelab::test::random_runs(1000); ++instance) {
    const bool per_layer = instance % 3 == 0;
    const std::uint32_t layers = per_layer ? 1 : 1 + below(random, 4), experts = 1 + below(random, 8);
    CacheShape shape = shape_of(layers, experts, below(random, layers * experts + 2));
    shape.kept_as = kAllStates[below(random, 4)];
    const char* const names[] = {"fixed-experts", "fixed-layers", "fixed-popular"};
    const auto cache = make(names[instance % 3], shape);
    const Objects held = held_by(*cache, shape.objects);
    for (int i = 0; i < 40; ++i) disturb(*cache, shape, random);
    REQUIRE(held_by(*cache, shape.objects) == held);
    REQUIRE(cache->bytes_held() == static_cast<double>(held.size()) * shape.bytes[index(shape.kept_as)]);
    REQUIRE(cache->bytes_held() <= shape.capacity_bytes);
    for (const std::uint32_t o : held) REQUIRE(cache->state(o) == shape.kept_as);
  }
}

}  // namespace moelab::fixed_cache_test
