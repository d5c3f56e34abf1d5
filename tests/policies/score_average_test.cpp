#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "models/input_error.hpp"
#include "tests/policies/small_caches.hpp"
#include "tests/random_runs.hpp"

namespace moelab::score_average_test {

using namespace moelab::test;

namespace {

std::unique_ptr<CachePolicy> make(const CacheShape& shape, double window) {
  return find_cache_policy("score-average")->make(shape, {{"window", window}});
}

void step(CachePolicy& cache, const std::vector<float>& scores, const Objects& uses) {
  cache.begin_step({});
  cache.observe(scores);
  for (const std::uint32_t o : uses) cache.use({.object = o});
}

/// Equation 3 over the whole history, and a step's uses known as a whole.
struct Naive {
  std::size_t places = 0;
  std::uint32_t window = 1;
  std::vector<std::vector<float>> history;  // iterations 1, 2, ... at 0, 1, ...
  Objects held, prefetched;

  double mean(std::uint32_t object) const {
    const auto j = static_cast<std::int64_t>(history.size());
    if (j == 0) return 0;
    const std::int64_t from = std::max<std::int64_t>(1, j - window);
    double sum = 0;
    for (std::int64_t k = from; k <= j; ++k) sum += history[static_cast<std::size_t>(k - 1)][object];
    return sum / static_cast<double>(j - from + 1);
  }
  /// Makes room for one expert, sparing `shielded`.
  bool make_room(const Objects& shielded) {
    if (held.size() < places) return true;
    std::vector<std::uint32_t> may_leave;
    for (const std::uint32_t o : held)
      if (shielded.count(o) == 0) may_leave.push_back(o);
    if (may_leave.empty()) return false;
    held.erase(*std::min_element(may_leave.begin(), may_leave.end(),
                                 [this](std::uint32_t a, std::uint32_t b) { return mean(a) < mean(b); }));
    return true;
  }
  void step(const std::vector<float>& scores, const Objects& uses) {
    prefetched.clear();
    history.push_back(scores);
    for (const std::uint32_t o : uses)
      if (held.count(o) == 0 && make_room(uses)) held.insert(o);
  }
  bool insert(std::uint32_t object) {
    if (held.count(object) == 0) {
      if (!make_room(prefetched)) return false;
      held.insert(object);
    }
    prefetched.insert(object);
    return true;
  }
};

}  // namespace

TEST_CASE("score-average: Equation 3 by hand") {
  // Room for 2 of 4, n = 1: the current iteration and the one before.
  const auto cache = make(shape_of(4, 2), 1);
  step(*cache, {0.5F, 0.25F, 0, 0}, {0, 1});
  // Sums of two iterations: 0: 0.5 + 0.125, 1: 0.25 + 0.25. By the current one alone 0 would leave.
  step(*cache, {0.125F, 0.25F, 0.5F, 0.125F}, {2});
  CHECK(held_by(*cache, 4) == Objects{0, 2});
  // 0: 0.125 + 0.25, 2: 0.5 + 0. Over all three iterations 2 would leave, and so it would by the current one.
  step(*cache, {0.25F, 0, 0, 0.5F}, {3});
  CHECK(held_by(*cache, 4) == Objects{2, 3});
  // 2: 0 + 0.25, 3: 0.5 + 0.
  step(*cache, {0.5F, 0.25F, 0.25F, 0}, {0});
  CHECK(held_by(*cache, 4) == Objects{0, 3});
}

TEST_CASE("score-average: what is used stays, in whatever order the uses come") {
  // Room for 3. 2 has the least score, and is used after 0 and 1 have come in: 3 and 4 make room for them.
  const auto cache = make(shape_of(5, 3), 3);
  step(*cache, {0, 0, 0.125F, 0.25F, 0.5F}, {2, 3, 4});
  step(*cache, {0, 0, 0, 0, 0}, {0, 1, 2});
  CHECK(held_by(*cache, 5) == Objects{0, 1, 2});
  // Four used where three fit: those that were there stay, newcomers come in while there is room.
  const auto small = make(shape_of(5, 3), 3);
  step(*small, {0, 0, 0.125F, 0.25F, 0.5F}, {2, 3, 4});
  step(*small, {0, 0, 0, 0, 0}, {0, 1, 2, 4});
  CHECK(held_by(*small, 5) == Objects{0, 2, 4});
}

TEST_CASE("score-average: prefetched experts displace the lowest, but not each other") {
  const auto cache = make(shape_of(6, 2), 3);
  step(*cache, {0.5F, 0.25F, 0, 0, 0, 0}, {0, 1});
  CHECK(cache->insert(2));  // 1 leaves
  CHECK(held_by(*cache, 6) == Objects{0, 2});
  CHECK(cache->insert(3));  // 0 leaves: 2 waits for its use
  CHECK_FALSE(cache->insert(4));
  CHECK(cache->insert(2));
  CHECK(held_by(*cache, 6) == Objects{2, 3});
  step(*cache, {0, 0, 0, 0.5F, 0.5F, 0}, {4});  // 2 was not used: no longer shielded
  CHECK(held_by(*cache, 6) == Objects{3, 4});
}

TEST_CASE("score-average: means do not drift") {
  // A score of 1e30 wipes out whatever is added to it. Once it has left the window nothing of it may remain:
  // 0 scores 0.25 from then on, 1 scores 0.125 and leaves. Also after many rounds of it, and wherever the
  // spike falls.
  for (const double window : {1.0, 2.0, 3.0, 7.0})
    for (int before = 0; before < 9; ++before)
      for (std::uint32_t spiked = 0; spiked < 3; ++spiked) {
        const auto cache = make(shape_of(4, 3), window);
        std::vector<float> scores = {0.25F, 0.25F, 0.25F, 0.25F};
        for (int i = 0; i < before; ++i) step(*cache, scores, {0, 1, 2});
        scores[spiked] = 1e30F;
        step(*cache, scores, {0, 1, 2});
        scores = {0.25F, 0.25F, 0.25F, 0.25F};
        scores[(spiked + 1) % 3] = 0.125F;
        for (int i = 0; i <= window; ++i) step(*cache, scores, {0, 1, 2});
        cache->insert(3);
        CHECK(cache->state((spiked + 1) % 3) == State::M);
        CHECK(cache->state(spiked) == State::F);
      }
}

TEST_CASE("score-average does what a naive implementation with the whole history does") {
  Random random(1);
  for (int instance = 0; instance < moelab::test::random_runs(1500); ++instance) {
    const std::uint32_t objects = 1 + below(random, instance % 10 == 0 ? 64 : 12);
    const std::uint32_t places = below(random, objects + 2);
    const std::uint32_t window = 1 + below(random, 6);
    const CacheShape shape = shape_of(objects, places);
    const auto cache = make(shape, window);
    Naive naive;
    naive.places = std::min(places, objects);
    naive.window = window;
    const bool fine = below(random, 2) == 0;  // or few distinct scores: many ties
    for (int i = 0; i < 40; ++i) {
      for (std::uint32_t n = below(random, 4); instance % 2 == 0 && n > 0; --n) {
        const std::uint32_t o = below(random, objects);
        REQUIRE(cache->insert(o) == naive.insert(o));
        REQUIRE(held_by(*cache, objects) == naive.held);
      }
      std::vector<float> scores;  // 1024ths: sums are exact
      for (std::uint32_t o = 0; o < objects; ++o)
        scores.push_back(static_cast<float>(below(random, fine ? 1024 : 3)) / 1024);
      Objects uses;
      for (std::uint32_t n = below(random, 7); n > 0; --n) uses.insert(below(random, objects));
      const Objects before = naive.held;
      step(*cache, scores, uses);
      naive.step(scores, uses);
      const Objects after = held_by(*cache, objects);
      if (after != naive.held) FAIL("instance " << instance << ", step " << i);
      REQUIRE(cache->bytes_held() == 10.0 * static_cast<double>(after.size()));
      REQUIRE(cache->bytes_held() <= shape.capacity_bytes);
      for (const std::uint32_t o : uses) REQUIRE((before.count(o) == 0 || after.count(o) != 0));
    }
  }
}

TEST_CASE("score-average refuses windows that its row does not allow") {
  for (const double window : {0.0, -1.0, 1.5, 1e6}) CHECK_THROWS_AS(make(shape_of(4, 2), window), InputError);
}

}  // namespace moelab::score_average_test
