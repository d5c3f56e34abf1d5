// Caches that know how experts age: gdsf by evictions, decode-lru by phases, least-stale by passes.
#include <list>
#include <set>
#include <tuple>

#include "models/input_error.hpp"
#include "tests/policies/naive_cache.hpp"
#include "tests/policies/small_caches.hpp"

namespace moelab::aging_cache_test {
namespace {

using namespace moelab::naive_cache;

/// As plain as can be, told all that the serving loop tells.
struct NaiveWalk {
  CacheShape shape;
  std::size_t places = 0;
  virtual ~NaiveWalk() = default;
  virtual void begin_step(const CacheStep& step) { (void)step; }
  virtual void use_all(const std::vector<ExpertUse>& uses) = 0;
  virtual void insert(std::uint32_t object) = 0;
  virtual Objects held() const = 0;
};

struct NaiveGdsf : NaiveWalk {  // with a cost and a size, which all experts share
  static constexpr double kCost = 3, kSize = 8;
  struct Item {
    double priority = 0, count = 0;
    int touched = 0;
    bool fetched = false;
  };
  std::map<std::uint32_t, Item> items;
  double level = 0;
  int clock = 0;
  bool count_tokens;
  explicit NaiveGdsf(bool tokens) : count_tokens(tokens) {}
  bool come(std::uint32_t o) {
    if (places == 0 || items.count(o) != 0) return items.count(o) != 0;
    if (items.size() == places) {
      const auto lowest = std::min_element(items.begin(), items.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.priority, a.second.touched) <
               std::pair(b.second.priority, b.second.touched);
      });
      level = lowest->second.priority;
      items.erase(lowest);
    }
    items[o] = {};
    return true;
  }
  void touch(std::uint32_t o, double count, bool fetched) {
    items[o] = {level + count * kCost / kSize, count, ++clock, fetched};
  }
  void use_all(const std::vector<ExpertUse>& uses) override {
    for (const ExpertUse& use : uses)
      if (come(use.object)) {
        const Item& item = items[use.object];
        touch(use.object, (item.fetched ? 0 : item.count) + (count_tokens ? use.tokens : 1), false);
      }
  }
  void insert(std::uint32_t o) override {
    if (items.count(o) == 0 && come(o)) touch(o, 1, true);
  }
  Objects held() const override {
    Objects objects;
    for (const auto& [object, item] : items) objects.insert(object);
    return objects;
  }
};

struct NaiveDecodeLru : NaiveWalk {
  std::list<std::uint32_t> queue;  // the back was used last
  double mixed;
  bool prefills = false;
  explicit NaiveDecodeLru(double share) : mixed(share) {}
  void begin_step(const CacheStep& step) override {
    prefills = 1.0 * step.prompt_tokens / step.tokens > mixed;
  }
  bool holds(std::uint32_t o) const { return std::find(queue.begin(), queue.end(), o) != queue.end(); }
  void use_all(const std::vector<ExpertUse>& uses) override {
    for (const ExpertUse& use : uses) {
      const bool hit = holds(use.object);
      queue.remove(use.object);
      if (hit || !prefills || queue.size() < places) queue.push_back(use.object);
      if (queue.size() > places) queue.pop_front();
    }
  }
  void insert(std::uint32_t o) override {
    if (!holds(o) && queue.size() < places) queue.push_back(o);
  }
  Objects held() const override { return {queue.begin(), queue.end()}; }
};

struct NaiveLeastStale : NaiveWalk {
  struct Touch {
    std::uint32_t object;
    int pass, time;
  };
  std::vector<Touch> items;
  int pass = 0, time = 0;
  std::uint32_t layer = 0;
  bool reported = false;  // the layer's uses
  bool is_behind(std::uint32_t its_layer) const {
    return its_layer < layer || (its_layer == layer && reported);
  }
  void begin_step(const CacheStep& step) override {
    if (is_behind(step.layer)) ++pass;
    layer = step.layer;
    reported = false;
  }
  bool holds(std::uint32_t o) const { return held().count(o) != 0; }
  /// 1 to 4, as the policy's comment numbers them.
  int kind(const Touch& item) const {
    const bool stale = item.pass != pass, behind = is_behind(item.object / (shape.objects / shape.layers));
    if (stale) return behind ? 1 : 2;
    return behind ? 3 : 4;
  }
  void touch(std::uint32_t o) {
    items.erase(std::remove_if(items.begin(), items.end(), [o](const Touch& t) { return t.object == o; }),
                items.end());
    items.push_back({o, pass, ++time});
  }
  void use_all(const std::vector<ExpertUse>& uses) override {
    reported = true;
    for (const ExpertUse& use : uses)
      if (holds(use.object)) touch(use.object);
    for (const ExpertUse& use : uses) insert(use.object);
    if (layer + 1 < shape.layers) return;
    ++pass;  // of which nothing lies behind
    layer = 0;
    reported = false;
  }
  void insert(std::uint32_t o) override {
    if (places == 0) return;
    if (!holds(o) && items.size() == places) {
      std::sort(items.begin(), items.end(), [this](const Touch& a, const Touch& b) {
        return std::pair(kind(a), a.time) < std::pair(kind(b), b.time);
      });
      items.erase(items.begin());
    }
    touch(o);
  }
  Objects held() const override {
    Objects objects;
    for (const Touch& item : items) objects.insert(item.object);
    return objects;
  }
};

/// A step of a walk through the layers, now and then somewhere else, and what it uses.
std::pair<CacheStep, std::vector<ExpertUse>> drawn_step(Random& random, const CacheShape& shape,
                                                        std::uint32_t t) {
  const std::uint32_t experts = shape.objects / shape.layers, tokens = 1 + below(random, 4);
  const std::uint32_t layer = (below(random, 8) == 0 ? below(random, shape.layers) : t) % shape.layers;
  std::vector<ExpertUse> uses;
  for (std::uint32_t e = 0; e < experts; ++e)
    if (below(random, experts) < 2)
      uses.push_back({.object = layer * experts + e, .tokens = 1 + below(random, tokens)});
  return {{layer, tokens, below(random, 2) * below(random, tokens + 1)}, uses};
}

/// The same experts held after every step and prefetch.
void compare_walks(std::string_view name, const PolicyParameters& parameters,
                   const std::function<std::unique_ptr<NaiveWalk>()>& make_naive) {
  Random random(53);
  for (int instance = 0; instance < random_runs(2000); ++instance) {
    const std::uint32_t layers = 1 + below(random, 4), experts = 1 + below(random, 8);
    CacheShape shape = full_only(layers * experts, below(random, layers * experts + 2));
    shape.layers = layers;
    const auto cache = make(name, shape, parameters);
    const auto naive = make_naive();
    naive->shape = shape;
    naive->places = std::min(shape.pool_experts[0], shape.objects);
    const auto prefetch = [&] {
      const std::uint32_t object = below(random, shape.objects);
      naive->insert(object);
      REQUIRE(cache->insert(object) == (naive->held().count(object) != 0));
    };
    for (std::uint32_t t = 0; t < 40; ++t) {
      if (instance % 2 == 0 && below(random, 3) == 0) prefetch();
      const auto [step, uses] = drawn_step(random, shape, t);
      cache->begin_step(step);
      naive->begin_step(step);
      if (instance % 2 == 0 && below(random, 3) == 0) prefetch();
      cache->use_all(uses);
      naive->use_all(uses);
      if (held_by(*cache, shape.objects) != naive->held())
        FAIL(name << ", instance " << instance << ", step " << t);
    }
  }
}

void use_in(CachePolicy& cache, const CacheStep& step, const Step& objects) {
  std::vector<ExpertUse> uses;
  for (const std::uint32_t o : objects) uses.push_back({.object = o});
  cache.begin_step(step);
  cache.use_all(uses);
}

/// Whether the policy holds what LRU holds on traces of one layer, all of decoding.
void require_lru(std::string_view name, const PolicyParameters& parameters, std::uint32_t prompt_tokens) {
  Random random(59);
  for (int instance = 0; instance < random_runs(1000); ++instance) {
    const std::uint32_t objects = 1 + below(random, 20);
    const CacheShape shape = full_only(objects, below(random, objects + 2));
    const auto cache = make(name, shape, parameters), lru = make("lru", shape);
    for (const Step& step : trace_of(kKinds[instance % 4], random, objects, 60)) {
      use_in(*cache, {0, 4, prompt_tokens}, step);
      use_in(*lru, {0, 4, prompt_tokens}, step);
      REQUIRE(held_by(*cache, objects) == held_by(*lru, objects));
    }
  }
}

}  // namespace

TEST_CASE("gdsf, decode-lru and least-stale do what naive lists do") {
  for (const bool tokens : {false, true})
    compare_walks("gdsf", {{"count_tokens", tokens}}, [=] { return std::make_unique<NaiveGdsf>(tokens); });
  for (const double mixed : {0.0, 0.25, 0.5, 1.0})
    compare_walks("decode-lru", {{"mixed", mixed}}, [=] { return std::make_unique<NaiveDecodeLru>(mixed); });
  compare_walks("least-stale", {}, [] { return std::make_unique<NaiveLeastStale>(); });
}

TEST_CASE("gdsf's level overtakes an expert that was used often once") {
  // Two places. 0, three times: 3; 1: 1. 2: 1 leaves, L = 1, 2 comes with 2. 3: 2 leaves, L = 2, 3 comes with
  // 3, as much as 0, which was touched before it: 4 takes 0's place. LFU has 0 for good.
  const auto gdsf = make("gdsf", full_only(5, 2)), lfu = make("lfu", full_only(5, 2));
  for (CachePolicy* cache : {gdsf.get(), lfu.get()})
    for (const std::uint32_t o : {0U, 0U, 0U, 1U, 2U, 3U, 4U}) cache->use({.object = o});
  CHECK(held_by(*gdsf, 5) == Objects{3, 4});
  CHECK(held_by(*lfu, 5) == Objects{0, 4});
}

TEST_CASE("decode-lru fills up with a prompt's experts and gives up none for them") {
  const auto cache = make("decode-lru", full_only(8, 3));
  use_in(*cache, {0, 9, 9}, {0, 1, 2, 3, 4});
  CHECK(held_by(*cache, 8) == Objects{0, 1, 2});
  CHECK_FALSE(cache->insert(5));
  use_in(*cache, {0, 1, 0}, {6});
  CHECK(held_by(*cache, 8) == Objects{1, 2, 6});
  use_in(*cache, {0, 9, 9}, {1, 3, 4, 5, 7});  // 1 is a hit
  use_in(*cache, {0, 1, 0}, {0});
  CHECK(held_by(*cache, 8) == Objects{0, 1, 6});
}

TEST_CASE("decode-lru is lru where no step prefills, and least-stale where there is one layer") {
  require_lru("decode-lru", {}, 0);
  require_lru("decode-lru", {{"mixed", 1}}, 4);
  require_lru("decode-lru", {{"mixed", 0.5}}, 2);
  require_lru("least-stale", {}, 0);
}

TEST_CASE("least-stale lets go of layers that the pass is past before those that it comes to") {
  // Two layers of four, three places. Passes use 0 and 4; 1; then 2 and 3, for which 0 and 1 leave, both of
  // layer 0, though 4 was used before 1: it is there when layer 1 uses it again. LRU would have 1.
  CacheShape shape = full_only(8, 3);
  shape.layers = 2;
  const auto cache = make("least-stale", shape);
  use_in(*cache, {0}, {0});
  use_in(*cache, {1}, {4});
  use_in(*cache, {0}, {1});
  use_in(*cache, {1}, {});
  use_in(*cache, {0}, {2, 3});
  CHECK(held_by(*cache, 8) == Objects{2, 3, 4});
}

TEST_CASE("least-stale keeps what was prefetched for layers that the pass comes to") {
  CacheShape shape = full_only(8, 2);
  shape.layers = 2;
  const auto cache = make("least-stale", shape);
  cache->begin_step({0});
  CHECK(cache->insert(4));
  const ExpertUse uses[] = {{.object = 0}};
  cache->use_all(uses);
  CHECK(cache->insert(5));  // 0, which was used after 4 came, is done with in this pass
  CHECK(held_by(*cache, 8) == Objects{4, 5});
}

TEST_CASE("gdsf and decode-lru refuse parameters out of their ranges") {
  CHECK_THROWS_AS(make("gdsf", full_only(8, 4), {{"count_tokens", 0.5}}), InputError);
  CHECK_THROWS_AS(make("decode-lru", full_only(8, 4), {{"mixed", 1.5}}), InputError);
}

}  // namespace moelab::aging_cache_test
