#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "tests/policies/small_caches.hpp"
#include "tests/random_runs.hpp"

namespace moelab::hybrimoe_cache_test {

using namespace moelab::test;

namespace {

CacheShape shape_of(std::uint32_t objects, std::uint32_t places, std::uint32_t top_k) {
  CacheShape shape = test::shape_of(objects, places);
  shape.top_k = top_k;
  return shape;
}

std::unique_ptr<CachePolicy> make(const CacheShape& shape, const PolicyParameters& parameters = {}) {
  return find_cache_policy("hybrimoe")->make(shape, parameters);
}

void step(CachePolicy& cache, const std::vector<float>& scores, const std::vector<std::uint32_t>& uses) {
  cache.begin_step({});
  cache.observe(scores);
  for (const std::uint32_t o : uses) cache.use({.object = o});
}

/// The average written out over the whole history: sum of alpha (1 - alpha)^age TopP(s), where an expert is
/// among the best p if fewer than p others come before it.
struct Naive {
  double alpha = 0.5;
  std::size_t p = 1, places = 0;
  std::vector<std::vector<float>> history;
  Objects held;

  double top_p(const std::vector<float>& scores, std::uint32_t object) const {
    std::size_t before = 0;
    for (std::uint32_t o = 0; o < scores.size(); ++o)
      before += scores[o] > scores[object] || (scores[o] == scores[object] && o < object);
    double total = 0;
    for (const float score : scores) total += score;
    return before < p && total > 0 ? scores[object] / total : 0;
  }
  double priority(std::uint32_t object) const {
    double sum = 0;
    for (std::size_t i = 0; i < history.size(); ++i)
      sum += alpha * std::pow(1 - alpha, static_cast<double>(history.size() - 1 - i)) *
             top_p(history[i], object);
    return sum;
  }
  void take(std::uint32_t object) {
    if (places == 0 || held.count(object) != 0) return;
    if (held.size() == places)
      held.erase(*std::min_element(held.begin(), held.end(), [this](std::uint32_t a, std::uint32_t b) {
        return priority(a) < priority(b);
      }));
    held.insert(object);
  }
};

}  // namespace

TEST_CASE("hybrimoe cache: the moving average by hand") {
  // Room for 2 of 4, alpha 1/2, p = 2 * 1. After two steps: 0: (1/2)(1/2) (1/2) = 1/8, and 1: (1/2)(1/2)(1/4)
  // + (1/2)(1/4) = 3/16: expert 0, used as late as 1, leaves.
  const auto cache = make(shape_of(4, 2, 1));
  step(*cache, {0.5F, 0.25F, 0.125F, 0.125F}, {0, 1});
  step(*cache, {0, 0.25F, 0.75F, 0}, {0, 1, 2});
  CHECK(held_by(*cache, 4) == Objects{1, 2});
}

TEST_CASE("hybrimoe cache: only the best p scores of a step count") {
  // p = 1: what 1 and 2 score in second place is nothing. 1 ties with 2 at 0 and leaves, as the smaller
  // number.
  const auto cache = make(shape_of(4, 2, 1), {{"p_per_choice", 1}});
  step(*cache, {0.5F, 0.375F, 0.125F, 0}, {1, 2});
  step(*cache, {0.5F, 0.375F, 0.125F, 0}, {0});
  CHECK(held_by(*cache, 4) == Objects{0, 2});
  // p = 2: now 1 has a score, and 2 leaves.
  const auto two = make(shape_of(4, 2, 2), {{"p_per_choice", 1}});
  step(*two, {0.5F, 0.375F, 0.125F, 0}, {1, 2});
  step(*two, {0.5F, 0.375F, 0.125F, 0}, {0});
  CHECK(held_by(*two, 4) == Objects{0, 1});
}

TEST_CASE("hybrimoe cache: a step of many tokens weighs as much as one of one token") {
  // 0 had all of a prompt of 1000 tokens, three steps ago: 1/16 now; 1 has 1/4 of the last step: 1/8.
  const auto cache = make(shape_of(4, 2, 4));
  step(*cache, {1000, 0, 0, 0}, {0, 1});
  step(*cache, {0, 0, 0, 1}, {0});
  step(*cache, {0, 0, 0, 1}, {0});
  step(*cache, {0, 0.25F, 0, 0.75F}, {2});
  CHECK(held_by(*cache, 4) == Objects{1, 2});
}

TEST_CASE("hybrimoe cache: what is prefetched is kept, and the least leaves") {
  const auto cache = make(shape_of(4, 2, 4));
  step(*cache, {0.25F, 0.5F, 0.125F, 0.125F}, {0, 1});
  CHECK(cache->insert(3));
  CHECK(held_by(*cache, 4) == Objects{1, 3});
  CHECK(cache->insert(3));
  CHECK_FALSE(make(shape_of(4, 0, 4))->insert(3));
}

TEST_CASE("hybrimoe cache does what the average over the whole history says") {
  // alpha 1/2 and 1/4 with scores that are multiples of 2^-10 of a total of 1, or a few ones in a total that
  // is a power of two: sums are exact, and so are ties.
  Random random(1);
  int evictions = 0;
  for (int instance = 0; instance < moelab::test::random_runs(1500); ++instance) {
    const std::uint32_t objects = 1 + below(random, instance % 10 == 0 ? 64 : 12);
    const std::uint32_t places = below(random, objects + 2), top_k = 1 + below(random, objects);
    const double per_choice = 1 + below(random, 3);
    Naive naive;
    naive.alpha = instance % 2 == 0 ? 0.5 : 0.25;
    naive.p = static_cast<std::size_t>(per_choice) * top_k;
    naive.places = std::min(places, objects);
    const CacheShape shape = shape_of(objects, places, top_k);
    const auto cache = make(shape, {{"alpha", naive.alpha}, {"p_per_choice", per_choice}});
    const std::uint32_t shares = below(random, 2) == 0 ? 1024 : 4;  // 4: many ties
    for (int i = 0; i < 15; ++i) {
      std::vector<float> scores(objects, 0);
      for (std::uint32_t n = 0; n < shares; ++n) scores[below(random, objects)] += 0.25F;
      Objects uses;
      for (std::uint32_t n = below(random, 7); n > 0; --n) uses.insert(below(random, objects));
      cache->begin_step({});
      cache->observe(scores);
      naive.history.push_back(scores);
      for (const std::uint32_t o : uses) {
        evictions += naive.held.size() == naive.places && naive.held.count(o) == 0;
        if (below(random, 4) == 0)
          cache->insert(o);
        else
          cache->use({.object = o});
        naive.take(o);
      }
      if (held_by(*cache, objects) != naive.held) FAIL("instance " << instance << ", step " << i);
      REQUIRE(cache->bytes_held() == 10.0 * static_cast<double>(naive.held.size()));
      REQUIRE(cache->bytes_held() <= shape.capacity_bytes);
    }
  }
  CHECK(evictions > moelab::test::random_runs(5000));
}

TEST_CASE("hybrimoe cache refuses parameters that its row does not allow") {
  for (const double alpha : {-0.1, 1.5})
    CHECK_THROWS_AS(make(shape_of(4, 2, 1), {{"alpha", alpha}}), InputError);
  CHECK_THROWS_AS(make(shape_of(4, 2, 1), {{"p_per_choice", 0.5}}), InputError);
}

}  // namespace moelab::hybrimoe_cache_test
