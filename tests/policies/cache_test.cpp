#include "policies/cache/cache.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "models/input_error.hpp"
#include "tests/policies/naive_cache.hpp"

namespace moelab::cache_test {
namespace {

using namespace moelab::naive_cache;

// ---- Naive caches: plain lists, linear searches, sorted afresh every time. ----

struct NaiveQueue : Naive {  // FIFO, and LRU when a use moves to the back
  explicit NaiveQueue(bool uses_move) : lru(uses_move) {}
  std::list<std::uint32_t> queue;
  bool lru;
  bool holds(std::uint32_t o) const override {
    return std::find(queue.begin(), queue.end(), o) != queue.end();
  }
  void use(std::uint32_t o) override {
    if (lru && holds(o)) queue.remove(o);
    insert(o);
  }
  void insert(std::uint32_t o) override {
    if (!holds(o)) queue.push_back(o);
    if (queue.size() > places) queue.pop_front();
  }
};

struct NaiveLfu : Naive {
  struct Item {
    std::uint64_t count;
    std::uint64_t touched;
    std::uint32_t object;
  };
  std::vector<Item> items;
  std::map<std::uint32_t, std::uint64_t> counts;
  std::uint64_t clock = 0;
  bool forget;
  explicit NaiveLfu(bool forgets) : forget(forgets) {}
  bool holds(std::uint32_t o) const override {
    return std::any_of(items.begin(), items.end(), [o](const Item& i) { return i.object == o; });
  }
  void use(std::uint32_t o) override {
    ++counts[o];
    items.erase(std::remove_if(items.begin(), items.end(), [o](const Item& i) { return i.object == o; }),
                items.end());
    insert(o);
  }
  void insert(std::uint32_t o) override {
    if (holds(o) || places == 0) return;
    if (items.size() == places) {
      std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
        return std::pair(a.count, a.touched) < std::pair(b.count, b.touched);
      });
      if (forget) counts[items.front().object] = 0;
      items.erase(items.begin());
    }
    items.push_back({counts[o], ++clock, o});
  }
};

struct NaiveMarking : Naive {
  std::map<std::uint32_t, bool> marked;  // of the held ones, in ascending order
  std::uint64_t seed, draws = 0;
  explicit NaiveMarking(std::uint64_t its_seed) : seed(its_seed) {}
  bool holds(std::uint32_t o) const override { return marked.count(o) != 0; }
  void use(std::uint32_t o) override {
    if (holds(o)) marked[o] = true;
    insert(o);
  }
  void insert(std::uint32_t o) override {
    if (holds(o) || places == 0) return;
    if (marked.size() == places) {
      if (std::all_of(marked.begin(), marked.end(), [](const auto& m) { return m.second; }))
        for (auto& m : marked) m.second = false;
      std::vector<std::uint32_t> unmarked;
      for (const auto& [object, mark] : marked)
        if (!mark) unmarked.push_back(object);
      std::uint64_t x = seed + ++draws * 0x9e3779b97f4a7c15;  // splitmix64
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
      x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
      x = x ^ (x >> 31);
      marked.erase(unmarked[(x >> 32) * unmarked.size() >> 32]);
    }
    marked[o] = true;
  }
};

struct NaiveSieve : Naive {  // the paper's Algorithm 1 on a list: front = head = newest, back = tail = oldest
  struct Object {
    std::uint32_t number;
    bool visited;
  };
  std::vector<Object> queue;
  std::optional<std::uint32_t> hand;  // none: the tail
  std::vector<Object>::iterator find(std::uint32_t o) {
    return std::find_if(queue.begin(), queue.end(), [o](const Object& object) { return object.number == o; });
  }
  bool holds(std::uint32_t o) const override { return const_cast<NaiveSieve*>(this)->find(o) != queue.end(); }
  void use(std::uint32_t o) override {
    if (holds(o))
      find(o)->visited = true;
    else
      insert(o);
  }
  void insert(std::uint32_t o) override {
    if (holds(o) || places == 0) return;
    if (queue.size() == places) {
      auto at = hand ? find(*hand) : queue.end() - 1;
      while (at->visited) {
        at->visited = false;
        at = at == queue.begin() ? queue.end() - 1 : at - 1;
      }
      hand = at == queue.begin() ? std::nullopt : std::optional((at - 1)->number);
      queue.erase(at);
    }
    queue.insert(queue.begin(), {o, false});
  }
};

struct NaiveZipmoe {
  CacheShape shape;
  double margin;
  bool count_tokens, spill, reset, slot_counts;
  std::vector<std::uint64_t> count, used_at, in_slot;
  std::array<std::vector<std::uint32_t>, 4> pools;
  std::uint64_t clock = 0;

  State state(std::uint32_t o) const {
    for (std::size_t p = 0; p < 4; ++p)
      if (std::count(pools[p].begin(), pools[p].end(), o) != 0) return kAllStates[p];
    return State::M;
  }
  bool has_room(std::size_t p) const { return pools[p].size() < shape.pool_experts[p]; }
  void remove(std::uint32_t o) {
    for (auto& pool : pools) pool.erase(std::remove(pool.begin(), pool.end(), o), pool.end());
  }
  void begin_request() {
    if (reset) std::fill(count.begin(), count.end(), 0U);
  }
  /// Among which the lowest leaves.
  std::pair<std::uint64_t, std::uint64_t> worth(std::uint32_t o) const {
    return {slot_counts ? in_slot[o] : count[o], used_at[o]};
  }
  void use(std::uint32_t o, std::uint32_t tokens) {
    count[o] += count_tokens ? tokens : 1;
    auto sorted = count;
    std::sort(sorted.rbegin(), sorted.rend());
    const auto rank = std::find(sorted.begin(), sorted.end(), count[o]) - sorted.begin();
    std::size_t target = 4;
    for (std::size_t p = 4; p-- > 0;) {
      double tau = margin * shape.objects;
      for (std::size_t j = 0; j <= p; ++j) tau += shape.pool_experts[j];
      if (shape.pool_experts[p] > 0 && static_cast<double>(rank) < tau) target = p;
    }
    const State found = state(o);
    if (found == State::F && (spill || target == 1 || target == 3))
      target = 0;  // the artifact leaves it there; and there are no E-chunks at hand
    else if (spill)
      target = spilled(target);
    remove(o);
    used_at[o] = ++clock;
    if (target == 4) return;
    in_slot[o] = kAllStates[target] == found ? in_slot[o] + (count_tokens ? tokens : 1) : 1;
    auto& pool = pools[target];
    if (!has_room(target)) {
      std::sort(pool.begin(), pool.end(),
                [this](std::uint32_t a, std::uint32_t b) { return worth(a) < worth(b); });
      pool.erase(pool.begin());
    }
    pool.push_back(o);
  }
  std::size_t spilled(std::size_t target) const {  // its own place is taken
    std::vector<std::size_t> tries;
    for (std::size_t p = target; p < 4; ++p) tries.push_back(p);
    for (std::size_t p = target; p > 0; --p) tries.push_back(p - 1);
    for (const std::size_t p : tries)
      if (has_room(p)) return p;
    return target;
  }
  bool insert(std::uint32_t o) {
    if (state(o) == State::F) return true;
    if (!has_room(0)) return false;
    remove(o);
    used_at[o] = ++clock;
    in_slot[o] = 1;
    pools[0].push_back(o);
    return true;
  }
};

/// A row a cache of one state that evicts on demand: its naive twin.
const std::vector<NaiveRow>& naive_caches() {
  static const std::vector<NaiveRow> rows = {
      {"fifo", {}, [] { return std::make_unique<NaiveQueue>(false); }},
      {"lru", {}, [] { return std::make_unique<NaiveQueue>(true); }},
      {"lfu", {{"forget", 0}}, [] { return std::make_unique<NaiveLfu>(false); }},
      {"lfu", {{"forget", 1}}, [] { return std::make_unique<NaiveLfu>(true); }},
      {"marking", {{"seed", 0}}, [] { return std::make_unique<NaiveMarking>(0); }},
      {"marking", {{"seed", 12345}}, [] { return std::make_unique<NaiveMarking>(12345); }},
      {"sieve", {}, [] { return std::make_unique<NaiveSieve>(); }},
  };
  return rows;
}

/// Most hits that any sequence of evictions gets, by trying them all. Demand paging: a missed expert always
/// takes a place; otherwise it may also be refused.
std::uint64_t most_hits(const Trace& trace, std::uint32_t places, bool refuse) {
  using Best = std::map<std::uint32_t, std::uint64_t>;  // held set -> hits so far
  Best best = {{0U, 0U}};
  const auto offer = [](Best& to, std::uint32_t set, std::uint64_t hits) {
    auto [it, added] = to.emplace(set, hits);
    if (!added) it->second = std::max(it->second, hits);
  };
  for (const Step& step : trace) {
    Best now;
    for (const auto& [set, hits] : best) {
      std::uint64_t found = 0;
      for (const std::uint32_t o : step) found += set >> o & 1;
      offer(now, set, hits + found);
    }
    for (const std::uint32_t o : step) {
      Best next;
      for (const auto& [set, hits] : now) {
        const std::uint32_t bit = 1U << o;
        if ((set & bit) != 0 || places == 0)
          offer(next, set, hits);
        else if (static_cast<std::uint32_t>(std::popcount(set)) < places)
          offer(next, set | bit, hits);
        else
          for (std::uint32_t v = 0; v < 32; ++v)
            if ((set >> v & 1) != 0) offer(next, (set & ~(1U << v)) | bit, hits);
        if (refuse) offer(next, set, hits);
      }
      now = std::move(next);
    }
    best = std::move(now);
  }
  std::uint64_t most = 0;
  for (const auto& [set, hits] : best) most = std::max(most, hits);
  return most;
}

}  // namespace

TEST_CASE("caches of one state do what naive lists do") {
  for (const NaiveRow& row : naive_caches()) compare_with_naive(row.name, row.parameters, row.make);
}

TEST_CASE("no cache keeps nothing") {
  const auto cache = make("none", full_only(4, 4));
  cache->use({.object = 1});
  CHECK_FALSE(cache->insert(2));
  CHECK(cache->state(1) == State::M);
  CHECK(cache->bytes_held() == 0);
}

TEST_CASE("hits on a loop one longer than the cache") {
  // Loop 0 1 2 3 with 3 places. LRU and FIFO evict just what comes next: 0 hits in 40 uses. MIN without
  // bypass: after 4 compulsory misses it evicts the expert used longest ahead, and misses every third use:
  // Belady's count for n objects in n - 1 places is one miss in n - 1 uses: 36 uses / 3 = 12 more misses.
  Trace loop;
  for (std::uint32_t t = 0; t < 40; ++t) loop.push_back({t % 4});
  CHECK(replay(*make("lru", full_only(4, 3)), loop, 4) == 0);
  CHECK(replay(*make("fifo", full_only(4, 3)), loop, 4) == 0);
  CHECK(replay(*make("belady", full_only(4, 3)), loop, 4) == 24);
}

TEST_CASE("belady finds as many hits as an exhaustive search") {
  Random random(5);
  for (int instance = 0; instance < moelab::test::random_runs(3000); ++instance) {
    const std::uint32_t objects = 2 + below(random, 5);
    const std::uint32_t places = below(random, 5);
    const Trace trace = trace_of(kKinds[instance % 4], random, objects, 9);
    for (const bool bypass : {false, true}) {
      const auto cache = make("belady", full_only(objects, places), {{"bypass", bypass}});
      const std::uint64_t hits = replay(*cache, trace, objects);
      if (hits != most_hits(trace, places, bypass)) FAIL("instance " << instance << " bypass " << bypass);
    }
  }
}

TEST_CASE("belady is never beaten") {
  Random random(6);
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    const std::uint32_t objects = 4 + below(random, 40);
    const CacheShape shape = full_only(objects, below(random, objects));
    const Trace trace = trace_of(kKinds[instance % 4], random, objects, 150);
    const auto hits = [&](std::string_view name, const PolicyParameters& parameters) {
      return replay(*make(name, shape, parameters), trace, objects);
    };
    const std::uint64_t demand = hits("belady", {}), free = hits("belady", {{"bypass", 1}});
    REQUIRE(free >= demand);
    for (const NaiveRow& row : naive_caches()) REQUIRE(demand >= hits(row.name, row.parameters));
    for (const CachePolicyEntry& entry : cache_policies())  // of those that start with nothing, as it does
      if (!entry.preloads) REQUIRE(free >= hits(entry.info.name, {}));
  }
}

TEST_CASE("belady's ties: the smallest number leaves, and what is held stays") {
  const auto demand = make("belady", full_only(4, 2));
  for (const std::uint32_t o : {2U, 1U, 0U}) demand->use({.object = o, .next_use = 9});
  CHECK(demand->state(1) == State::M);  // 1 and 2 were equally far
  CHECK(demand->state(2) == State::F);
  const auto bypass = make("belady", full_only(4, 2), {{"bypass", 1}});
  for (const std::uint32_t o : {2U, 1U, 0U}) bypass->use({.object = o, .next_use = 9});
  CHECK(bypass->state(0) == State::M);
}

TEST_CASE("belady takes a prefetched expert only if it is nearer than the farthest one") {
  const auto cache = make("belady", full_only(4, 1));
  cache->use({.object = 0, .next_use = 9});
  cache->use({.object = 1, .next_use = 5});  // demand paging: 0 leaves
  CHECK_FALSE(cache->insert(0));             // 9 is farther than 5
  CHECK_FALSE(cache->insert(2));             // nothing is known of it
  CHECK(cache->insert(1));
  cache->use({.object = 2, .next_use = 7});
  CHECK(cache->insert(1));  // 5 is nearer than 7
  CHECK(cache->state(2) == State::M);
}

TEST_CASE("memory held is that of the states, and never above the capacity") {
  Random random(7);
  for (int instance = 0; instance < moelab::test::random_runs(300); ++instance) {
    CacheShape shape;
    shape.objects = 1 + below(random, 30);
    const double plane = 1 + static_cast<double>(below(random, 1000)) / 7;
    const double ratio = 0.3 + below(random, 50) / 100.0;
    shape.bytes = {2 * plane, (1 + ratio) * plane, plane, ratio * plane, 0};
    shape.capacity_bytes = below(random, 2 * shape.objects + 1) * plane / 3;
    shape.kept_as = kAllStates[below(random, 4)];
    double left = shape.capacity_bytes;
    for (std::size_t p = 0; p < 4; ++p) {
      shape.pool_experts[p] = below(random, 1 + static_cast<std::uint32_t>(left / shape.bytes[p]));
      left -= shape.pool_experts[p] * shape.bytes[p];
    }
    const Trace trace = trace_of(kKinds[instance % 4], random, shape.objects, 60);
    for (const CachePolicyEntry& entry : cache_policies()) {
      const auto cache = entry.make(shape, {});
      for (const Step& step : trace) {
        if (const std::uint32_t o = below(random, shape.objects); cache->insert(o))
          REQUIRE(cache->state(o) != State::M);
        for (const std::uint32_t used : step) {
          cache->use({.object = used, .score = 0.1F});
          double bytes = 0;
          for (std::uint32_t o = 0; o < shape.objects; ++o) bytes += shape.bytes[index(cache->state(o))];
          REQUIRE(cache->bytes_held() <= shape.capacity_bytes * (1 + 1e-12));
          REQUIRE(cache->bytes_held() == Approx(bytes).epsilon(1e-12));
        }
      }
    }
  }
}

TEST_CASE("a share of exactly n experts holds n, whatever rounding does") {
  for (std::uint32_t n = 1; n < 2000; ++n) {
    CacheShape shape = full_only(n + 5, 0);
    shape.bytes[0] = 0.1 * n;
    shape.capacity_bytes = n * shape.bytes[0];
    const auto cache = make("fifo", shape);
    for (std::uint32_t o = 0; o < n + 5; ++o) cache->use({.object = o});
    REQUIRE(cache->bytes_held() == shape.capacity_bytes);
  }
}

TEST_CASE("zipmoe does what sorting all experts afresh does, and conjures no parts") {
  Random random(8);
  for (int instance = 0; instance < moelab::test::random_runs(1500); ++instance) {
    CacheShape shape;
    shape.objects = 1 + below(random, 24);
    shape.bytes = {10, 7, 5, 2, 0};
    for (std::size_t p = 0; p < 4; ++p)  // any subset of the pools
      shape.pool_experts[p] = below(random, 2) * below(random, 1 + shape.objects / 2);
    for (std::size_t p = 0; p < 4; ++p) shape.capacity_bytes += shape.pool_experts[p] * shape.bytes[p];
    const double margin = below(random, 4) * 0.1;
    const bool count_tokens = below(random, 2) == 0, spill = below(random, 2) == 0;
    const bool reset = below(random, 2) == 0, slot_counts = below(random, 2) == 0;
    const auto cache = make("zipmoe", shape,
                            {{"margin", margin},
                             {"count_tokens", count_tokens},
                             {"spill", spill},
                             {"reset", reset},
                             {"slot_counts", slot_counts}});
    const std::vector<std::uint64_t> none(shape.objects);
    NaiveZipmoe naive{shape, margin, count_tokens, spill, reset, slot_counts, none, none, none, {}};
    for (const Step& step : trace_of(kKinds[instance % 4], random, shape.objects, 50)) {
      if (const std::uint32_t o = below(random, shape.objects); below(random, 5) == 0)
        REQUIRE(cache->insert(o) == naive.insert(o));
      if (below(random, 8) == 0) {
        cache->begin_request();
        naive.begin_request();
      }
      for (const std::uint32_t used : step) {
        std::vector<State> before;
        for (std::uint32_t o = 0; o < shape.objects; ++o) before.push_back(cache->state(o));
        const std::uint32_t tokens = 1 + below(random, 9) * below(random, 9);
        cache->use({.object = used, .tokens = tokens});
        naive.use(used, tokens);
        for (std::uint32_t o = 0; o < shape.objects; ++o) {
          const State now = cache->state(o);
          if (now != naive.state(o)) FAIL("instance " << instance << ", expert " << o);
          // Only the expert used can gain parts; one found in F was not read, so it has no E-chunks.
          if (o != used)
            REQUIRE((now == before[o] || now == State::M));
          else if (before[o] == State::F)
            REQUIRE((now != State::C && now != State::E));
        }
      }
    }
  }
}

TEST_CASE("zipmoe sends ranks to pools in their order") {
  // One place in each pool, no margin. Used once each for 50, 40, 30, 20 and 10 tokens, experts 0 to 4 come
  // in with 0 to 4 experts ahead of them: ranks 0 to 3 are the pools' and rank 4 is beyond them all.
  CacheShape shape;
  shape.objects = 5;
  shape.bytes = {10, 7, 5, 2, 0};
  shape.pool_experts = {1, 1, 1, 1, 0};
  shape.capacity_bytes = 24;
  const auto cache = make("zipmoe", shape, {{"margin", 0}, {"count_tokens", 1}});
  for (std::uint32_t o = 0; o < 5; ++o) cache->use({.object = o, .tokens = 10 * (5 - o)});
  const State expected[] = {State::F, State::C, State::S, State::E, State::M};
  for (std::uint32_t o = 0; o < 5; ++o) CHECK(cache->state(o) == expected[o]);
  CHECK(cache->bytes_held() == 24);
}

TEST_CASE("zipmoe spills up to the nearest pool with room") {
  // Places F 1, C 1, S 4, no margin: tau = 1, 2, 6. Tokens make the ranks: 0 goes to F, 1 (rank 1) to C; 2
  // and 3 (rank 0) find F and C full and spill to S. By now 0 and 1 are of ranks 2 and 3: 0 stays in F, 1
  // moves down to S, and 4, of rank 4, follows, so that S is full. Expert 5, of rank 4 too, belongs in S: C
  // is the nearest pool with room.
  CacheShape shape;
  shape.objects = 6;
  shape.bytes = {10, 7, 5, 2, 0};
  shape.pool_experts = {1, 1, 4, 0, 0};
  shape.capacity_bytes = 37;
  const auto cache = make("zipmoe", shape, {{"margin", 0}, {"count_tokens", 1}, {"spill", 1}});
  const std::pair<std::uint32_t, std::uint32_t> uses[] = {{0, 10}, {1, 5}, {2, 30}, {3, 40},
                                                          {0, 1},  {1, 1}, {4, 1},  {5, 1}};
  for (const auto& [object, tokens] : uses) cache->use({.object = object, .tokens = tokens});
  CHECK(cache->state(0) == State::F);
  for (std::uint32_t o = 1; o < 5; ++o) CHECK(cache->state(o) == State::S);
  CHECK(cache->state(5) == State::C);
}

TEST_CASE("zipmoe as its published code runs it: a full S promotes what is found in it") {
  // F 1, S 1, margin 1: F is every expert's target. 0 fills F, 1 spills to S. 1 again: both are full, so it
  // goes to F, where 0 leaves for it, and S is free: 2 takes it. 3 finds both full and goes to F, 1 leaves.
  CacheShape shape;
  shape.objects = 4;
  shape.bytes = {10, 7, 5, 2, 0};
  shape.pool_experts = {1, 0, 1, 0, 0};
  shape.capacity_bytes = 15;
  const auto cache = make("zipmoe", shape, {{"margin", 1}, {"spill", 1}});
  const auto use = [&](std::uint32_t o) { cache->use({.object = o}); };
  use(0), use(1);
  CHECK((cache->state(0) == State::F && cache->state(1) == State::S));
  use(1);
  CHECK((cache->state(0) == State::M && cache->state(1) == State::F));
  use(2), use(3);
  CHECK((cache->state(1) == State::M && cache->state(2) == State::S && cache->state(3) == State::F));
}

TEST_CASE("zipmoe refuses pools larger than its memory") {
  CacheShape shape = full_only(8, 2);
  shape.pool_experts = {2, 2, 0, 0, 0};  // 20 + 14 bytes, of 29.5
  CHECK_THROWS_AS(make("zipmoe", shape), InputError);
  for (const char* on_or_off : {"count_tokens", "spill", "reset", "slot_counts"})
    CHECK_THROWS_AS(make("zipmoe", shape, {{on_or_off, 0.5}}), InputError);
}

TEST_CASE("the cache table tells what its policies need") {
  std::set<std::string_view> names;
  for (const CachePolicyEntry& entry : cache_policies()) {
    CHECK(names.insert(entry.info.name).second);
    CHECK_FALSE(entry.info.help.empty());
    CHECK_FALSE(entry.info.source.empty());
    CHECK(entry.needs_future == (entry.info.name == "belady"));
    CHECK(entry.uses_pools == (entry.info.name == "zipmoe"));
    CHECK_FALSE((entry.may_span_model && (entry.per_model || entry.needs_future || entry.needs_profile)));
    CHECK(entry.needs_all_scores == (entry.info.name == "score-average" || entry.info.name == "hybrimoe"));
    CHECK(entry.needs_profile == (entry.info.name == "fixed-popular"));
    CHECK(entry.preloads == (entry.info.name.substr(0, 6) == "fixed-"));
    const CacheShape shape = full_only(6, 3);
    CHECK((entry.make(shape, {})->bytes_held() > 0) == (entry.preloads && entry.info.name != "fixed-layers"));
  }
  CHECK(find_cache_policy("mru") == nullptr);
}

}  // namespace moelab::cache_test
