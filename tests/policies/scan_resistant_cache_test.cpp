// The caches of general papers that tell experts used once from those used again: s3-fifo, arc, lru-k and
// w-tinylfu, each beside a twin written from its paper.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "models/input_error.hpp"
#include "tests/policies/naive_cache.hpp"

namespace moelab::scan_resistant_cache_test {
namespace {

using namespace moelab::naive_cache;

using List = std::vector<std::uint32_t>;  // front: the head, where objects come in; back: the tail

bool within(const List& list, std::uint32_t o) {
  return std::find(list.begin(), list.end(), o) != list.end();
}
void to_head(List& list, std::uint32_t o) {
  list.insert(list.begin(), o);
}
std::uint32_t take_tail(List& list) {
  const std::uint32_t tail = list.back();
  list.pop_back();
  return tail;
}
void take_out(List& list, std::uint32_t o) {
  list.erase(std::remove(list.begin(), list.end(), o), list.end());
}

struct NaiveS3Fifo : Naive {  // Algorithm 1 of the paper, READ to EVICTM
  List s, m, g;
  std::map<std::uint32_t, int> freq;
  std::set<std::uint32_t> fetched;  // before their first use
  std::size_t tenths;               // of the places are S's
  int threshold;
  NaiveS3Fifo(std::size_t its_tenths, int its_threshold) : tenths(its_tenths), threshold(its_threshold) {}

  std::size_t share() const { return std::max<std::size_t>(1, (tenths * places + 9) / 10); }
  std::size_t others() const { return share() > places ? 0 : places - share(); }
  bool holds(std::uint32_t o) const override { return within(s, o) || within(m, o); }
  void use(std::uint32_t o) override {
    if (!holds(o)) return come(o);
    if (fetched.erase(o) == 0) freq[o] = std::min(freq[o] + 1, 3);
  }
  void insert(std::uint32_t o) override {
    if (holds(o) || places == 0) return;
    come(o);
    fetched.insert(o);
  }
  void come(std::uint32_t o) {
    if (places == 0) return;
    while (s.size() + m.size() == places) s.size() >= share() ? evict_s() : evict_m();
    to_head(within(g, o) ? m : s, o);
    take_out(g, o);
    freq[o] = 0;
  }
  void leave(std::uint32_t o) { fetched.erase(o); }
  void evict_s() {
    bool evicted = false;
    while (!evicted && !s.empty()) {
      const std::uint32_t t = take_tail(s);
      if (freq[t] >= threshold) {
        to_head(m, t);
        freq[t] = 0;
        if (m.size() > others()) evict_m();
      } else {
        to_head(g, t);
        leave(t);
        if (g.size() > others()) g.pop_back();
        evicted = true;
      }
    }
  }
  void evict_m() {
    bool evicted = false;
    while (!evicted && !m.empty()) {
      const std::uint32_t t = take_tail(m);
      if (freq[t] > 0) {
        to_head(m, t);
        --freq[t];
      } else {
        leave(t);
        evicted = true;
      }
    }
  }
};

struct NaiveArc : Naive {  // Figure 4 of the paper, its four cases, with what it proves of their sizes
  List t1, t2, b1, b2;
  double p = 0;
  std::set<std::uint32_t> fetched;  // before their first use

  bool holds(std::uint32_t o) const override { return within(t1, o) || within(t2, o); }
  void use(std::uint32_t o) override {
    if (places == 0) return;
    if (holds(o)) {
      const bool first = fetched.erase(o) > 0 && within(t1, o);
      take_out(t1, o), take_out(t2, o);
      to_head(first ? t1 : t2, o);
    } else {
      miss(o);
    }
    check();
  }
  void insert(std::uint32_t o) override {
    if (places == 0 || holds(o)) return;
    miss(o);
    fetched.insert(o);
    check();
  }
  void miss(std::uint32_t o) {
    const auto c = static_cast<double>(places);
    const auto ratio = [](const List& a, const List& b) {
      return static_cast<double>(a.size()) / static_cast<double>(b.size());
    };
    fetched.erase(o);
    if (within(b1, o)) {
      p = std::min(c, p + (b1.size() >= b2.size() ? 1 : ratio(b2, b1)));
      replace(false);
      take_out(b1, o);
      to_head(t2, o);
    } else if (within(b2, o)) {
      p = std::max(0.0, p - (b2.size() >= b1.size() ? 1 : ratio(b1, b2)));
      replace(true);
      take_out(b2, o);
      to_head(t2, o);
    } else {
      const std::size_t all = t1.size() + t2.size() + b1.size() + b2.size();
      if (t1.size() + b1.size() == places) {
        if (t1.size() < places) {
          b1.pop_back();
          replace(false);
        } else {
          fetched.erase(take_tail(t1));
        }
      } else if (all >= places) {
        if (all == 2 * places) b2.pop_back();
        replace(false);
      }
      to_head(t1, o);
    }
  }
  void replace(bool in_b2) {
    const auto size = static_cast<double>(t1.size());
    const bool first = !t1.empty() && ((in_b2 && size == p) || size > p);
    const std::uint32_t victim = take_tail(first ? t1 : t2);
    to_head(first ? b1 : b2, victim);
    fetched.erase(victim);
  }
  /// What section III proves: conditions A.1 to A.5 of a cache and its directory.
  void check() const {
    const std::size_t l1 = t1.size() + b1.size(), l2 = t2.size() + b2.size();
    REQUIRE((p >= 0 && p <= static_cast<double>(places)));
    REQUIRE(t1.size() + t2.size() <= places);
    REQUIRE((l1 <= places && l1 + l2 <= 2 * places));
    if (l1 + l2 < places) REQUIRE((b1.empty() && b2.empty()));
    if (l1 + l2 >= places) REQUIRE(t1.size() + t2.size() == places);
  }
};

struct NaiveLruK : Naive {  // Figure 2.1 of the paper, with all times ever kept
  struct Page {
    std::uint32_t object;
    std::uint64_t touched;
  };
  std::vector<Page> buffer;
  std::map<std::uint32_t, std::vector<std::uint64_t>> uses;
  std::uint64_t now = 0;
  std::size_t k;
  explicit NaiveLruK(std::size_t its_k) : k(its_k) {}

  bool holds(std::uint32_t o) const override {
    return std::any_of(buffer.begin(), buffer.end(), [o](const Page& p) { return p.object == o; });
  }
  std::uint64_t kth_last(std::uint32_t o) {  // 0: infinitely far back
    const auto& times = uses[o];
    return times.size() < k ? 0 : times[times.size() - k];
  }
  void use(std::uint32_t o) override {
    uses[o].push_back(++now);
    buffer.erase(std::remove_if(buffer.begin(), buffer.end(), [o](const Page& p) { return p.object == o; }),
                 buffer.end());
    bring(o);
  }
  void insert(std::uint32_t o) override {
    ++now;
    if (!holds(o)) bring(o);
  }
  void bring(std::uint32_t o) {
    if (places == 0) return;
    if (buffer.size() == places) {
      std::sort(buffer.begin(), buffer.end(), [this](const Page& a, const Page& b) {
        return std::pair(kth_last(a.object), a.touched) < std::pair(kth_last(b.object), b.touched);
      });
      buffer.erase(buffer.begin());
    }
    buffer.push_back({o, now});
  }
};

struct NaiveWTinyLfu : Naive {  // sections 3.3 and 4 of the paper: a window in front of an SLRU, exact counts
  List window, probation, shelter;
  std::map<std::uint32_t, std::uint64_t> counts;
  std::uint64_t seen = 0, sample;
  std::size_t window_tenths, shelter_tenths;
  NaiveWTinyLfu(std::size_t its_window, std::size_t its_shelter, std::uint64_t its_sample)
      : sample(its_sample), window_tenths(its_window), shelter_tenths(its_shelter) {}

  std::size_t main_places() const { return places * (10 - window_tenths) / 10; }
  bool holds(std::uint32_t o) const override {
    return within(window, o) || within(probation, o) || within(shelter, o);
  }
  void record(std::uint32_t o) {
    if (counts[o] < sample) ++counts[o];
    ++seen;
    if (seen >= sample * places) {
      for (auto& [object, count] : counts) count /= 2;
      seen /= 2;
    }
  }
  void use(std::uint32_t o) override {
    record(o);
    if (!holds(o)) return come(o);
    if (within(window, o)) {
      take_out(window, o);
      return to_head(window, o);
    }
    take_out(probation, o), take_out(shelter, o);
    to_head(shelter, o);
    if (shelter.size() > main_places() * shelter_tenths / 10) to_head(probation, take_tail(shelter));
  }
  void insert(std::uint32_t o) override {
    if (!holds(o)) come(o);
  }
  void come(std::uint32_t o) {
    if (places == 0) return;
    to_head(window, o);
    if (window.size() <= places - main_places()) return;
    const std::uint32_t candidate = take_tail(window);
    if (window.size() + probation.size() + shelter.size() == places) {  // TinyLFU decides
      if (probation.empty() || counts[candidate] <= counts[probation.back()]) return;
      probation.pop_back();
    }
    to_head(probation, candidate);
  }
};

struct Row {
  std::string_view name;
  PolicyParameters parameters;
  std::function<std::unique_ptr<Naive>()> make;
};

std::vector<Row> rows() {
  std::vector<Row> all = {
      {"arc", {}, [] { return std::make_unique<NaiveArc>(); }},
      {"s3-fifo", {}, [] { return std::make_unique<NaiveS3Fifo>(1, 2); }},
      {"w-tinylfu", {{"window", 0.1}}, [] { return std::make_unique<NaiveWTinyLfu>(1, 8, 10); }}};
  for (const std::size_t tenths : {0, 3, 7, 10})
    for (const int threshold : {1, 2, 3})
      all.push_back({"s3-fifo",
                     {{"small", 0.1 * static_cast<double>(tenths)}, {"threshold", threshold}},
                     [=] { return std::make_unique<NaiveS3Fifo>(tenths, threshold); }});
  for (const std::size_t k : {1, 2, 3, 7})
    all.push_back({"lru-k", {{"k", static_cast<double>(k)}}, [=] { return std::make_unique<NaiveLruK>(k); }});
  for (const std::size_t window : {0, 3, 5, 10})
    for (const std::size_t shelter : {0, 5, 10})
      for (const unsigned sample : {1U, 3U})
        all.push_back({"w-tinylfu",
                       {{"window", 0.1 * static_cast<double>(window)},
                        {"protected", 0.1 * static_cast<double>(shelter)},
                        {"sample", sample}},
                       [=] { return std::make_unique<NaiveWTinyLfu>(window, shelter, sample); }});
  return all;
}

/// Whether two caches hold the same after every use of random traces; with prefetches, or without.
void require_same(const std::string& one, const PolicyParameters& its, const std::string& other,
                  bool prefetches) {
  Random random(23);
  for (int instance = 0; instance < random_runs(400); ++instance) {
    const std::uint32_t objects = 1 + below(random, 30);
    const CacheShape shape = full_only(objects, below(random, objects + 2));
    const auto a = make(one, shape, its), b = make(other, shape);
    for (const Step& step : trace_of(kKinds[instance % 4], random, objects, 60)) {
      if (const std::uint32_t o = below(random, objects); prefetches && below(random, 3) == 0)
        REQUIRE(a->insert(o) == b->insert(o));
      for (const std::uint32_t used : step) {
        a->use({.object = used});
        b->use({.object = used});
        for (std::uint32_t o = 0; o < objects; ++o)
          if (a->state(o) != b->state(o)) FAIL(one << ", instance " << instance << ": expert " << o);
      }
    }
  }
}

}  // namespace

TEST_CASE("s3-fifo, arc, lru-k and w-tinylfu do what naive lists do") {
  for (const Row& row : rows()) compare_with_naive(row.name, row.parameters, row.make);
}

TEST_CASE("s3-fifo, arc, lru-k and w-tinylfu never beat belady, with any parameters") {
  Random random(31);
  for (int instance = 0; instance < random_runs(200); ++instance) {
    const std::uint32_t objects = 4 + below(random, 40);
    const CacheShape shape = full_only(objects, below(random, objects));
    const Trace trace = trace_of(kKinds[instance % 4], random, objects, 150);
    const std::uint64_t demand = replay(*make("belady", shape), trace, objects);
    const std::uint64_t free = replay(*make("belady", shape, {{"bypass", 1}}), trace, objects);
    for (const Row& row : rows()) {
      const auto window = row.parameters.find("window");  // without one it refuses experts
      const bool refuses = window != row.parameters.end() && window->second == 0;
      INFO(row.name << ", instance " << instance);
      REQUIRE(replay(*make(row.name, shape, row.parameters), trace, objects) <= (refuses ? free : demand));
    }
  }
}

TEST_CASE("lru-k of k = 1 is lru, and w-tinylfu that is all window is lru") {
  require_same("lru-k", {{"k", 1}}, "lru", false);  // a prefetch has no time in lru-k
  require_same("w-tinylfu", {{"window", 1}}, "lru", true);
}

TEST_CASE("lru-2 tells an index from its records") {
  // The paper's Example 1.1 in small: index and record pages take turns, I1 R1 I2 R2 ..., the 4 index pages
  // round and round, no record twice; 5 places. An index page comes again after 7 other pages, so LRU never
  // has it. LRU-2 has none either the first two times; from then on it is one used twice, before which
  // records leave, and the fifth place is theirs: all of the 100 uses of index pages but 2 x 4 are hits.
  Trace trace;
  for (std::uint32_t t = 0; t < 100; ++t) {
    trace.push_back({t % 4});
    trace.push_back({4 + t});
  }
  CHECK(replay(*make("lru", full_only(104, 5)), trace, 104) == 0);
  CHECK(replay(*make("lru-k", full_only(104, 5)), trace, 104) == 92);
}

TEST_CASE("arc's experts used twice outlive a scan of any length") {
  // Section IV.B: a scan meets no name in B1 or B2, so p stays 0 and every victim is of T1.
  const auto arc = make("arc", full_only(1000, 4)), lru = make("lru", full_only(1000, 4));
  for (CachePolicy* cache : {arc.get(), lru.get()}) {
    for (const std::uint32_t o : {0U, 0U, 1U, 1U}) cache->use({.object = o});
    for (std::uint32_t o = 2; o < 1000; ++o) cache->use({.object = o});
  }
  CHECK((arc->state(0) == State::F && arc->state(1) == State::F));
  CHECK((lru->state(0) == State::M && lru->state(1) == State::M));
}

TEST_CASE("arc's share of experts used once grows where those come back") {
  // c = 2. 0 and 1 fill T1; 0 again: T2 = {0}, T1 = {1}. 2: |T1| + |B1| = 1 < c and all four have 2 = c:
  // replace, |T1| = 1 > p = 0: 1 leaves for B1, T1 = {2}. 1 is in B1: p = 1; |T1| = 1 is not above it, so
  // T2's 0 leaves for B2, T2 = {1}. 0 is in B2: p = 0 again; |T1| = 1 > 0: 2 leaves, T2 = {0, 1}.
  const auto cache = make("arc", full_only(3, 2));
  const auto held = [&] {
    std::set<std::uint32_t> set;
    for (std::uint32_t o = 0; o < 3; ++o)
      if (cache->state(o) == State::F) set.insert(o);
    return set;
  };
  for (const std::uint32_t o : {0U, 1U, 0U, 2U}) cache->use({.object = o});
  CHECK(held() == std::set<std::uint32_t>{0, 2});
  cache->use({.object = 1});
  CHECK(held() == std::set<std::uint32_t>{1, 2});
  cache->use({.object = 0});
  CHECK(held() == std::set<std::uint32_t>{0, 1});
}

TEST_CASE("s3-fifo lets go of what is used once, and takes back what returns soon") {
  // 10 places, S has 1 and M 9. 0 to 9 fill S; 10: S has more than 1, and 0, never used again, leaves for G.
  // 0 again: 1 leaves, and 0, whose name is in G, comes back into M, where a scan of S does not reach it.
  const auto cache = make("s3-fifo", full_only(200, 10));
  for (std::uint32_t o = 0; o < 11; ++o) cache->use({.object = o});
  CHECK(cache->state(0) == State::M);
  cache->use({.object = 0});
  CHECK((cache->state(0) == State::F && cache->state(1) == State::M));
  for (std::uint32_t o = 11; o < 200; ++o) cache->use({.object = o});
  CHECK(cache->state(0) == State::F);
}

TEST_CASE("w-tinylfu takes no newcomer that was used less than the one that would leave for it") {
  // 10 places: the window has 1, the main part 9. 0 to 9 are used three times each; 10 and 11 once: each
  // passes the window and, with a count of 1, is refused by the main part.
  const auto cache = make("w-tinylfu", full_only(12, 10), {{"sample", 100}});
  for (std::uint32_t round = 0; round < 3; ++round)
    for (std::uint32_t o = 0; o < 10; ++o) cache->use({.object = o});
  for (const std::uint32_t o : {10U, 11U, 10U}) cache->use({.object = o});
  CHECK((cache->state(10) == State::F && cache->state(11) == State::M));  // 10 is in the window
  std::uint32_t old = 0;
  for (std::uint32_t o = 0; o < 10; ++o) old += cache->state(o) == State::F;
  CHECK(old == 9);
}

TEST_CASE("the first use of a prefetched expert is not a second one") {
  // As if the use itself had brought it: all states are the same from there on.
  for (const char* name : {"s3-fifo", "arc", "gdsf"}) {
    Random random(41);
    for (int instance = 0; instance < random_runs(200); ++instance) {
      const std::uint32_t objects = 2 + below(random, 30);
      const CacheShape shape = full_only(objects, 1 + below(random, objects));
      const auto fetched = make(name, shape), plain = make(name, shape);
      for (const Step& step : trace_of(kKinds[instance % 4], random, objects, 60))
        for (const std::uint32_t used : step) {
          if (plain->state(used) == State::M) fetched->insert(used);
          fetched->use({.object = used});
          plain->use({.object = used});
          for (std::uint32_t o = 0; o < objects; ++o)
            if (fetched->state(o) != plain->state(o)) FAIL(name << ", instance " << instance);
        }
    }
  }
}

TEST_CASE("s3-fifo, lru-k and w-tinylfu refuse parameters out of their ranges") {
  const CacheShape shape = full_only(8, 4);
  CHECK_THROWS_AS(make("lru-k", shape, {{"k", 0}}), InputError);
  CHECK_THROWS_AS(make("lru-k", shape, {{"k", 1.5}}), InputError);
  CHECK_THROWS_AS(make("s3-fifo", shape, {{"small", 1.1}}), InputError);
  CHECK_THROWS_AS(make("s3-fifo", shape, {{"threshold", 4}}), InputError);
  CHECK_THROWS_AS(make("w-tinylfu", shape, {{"window", -0.1}}), InputError);
  CHECK_THROWS_AS(make("w-tinylfu", shape, {{"sample", 0}}), InputError);
  CHECK_THROWS_AS(make("w-tinylfu", shape, {{"protected", std::nan("")}}), InputError);
}

}  // namespace moelab::scan_resistant_cache_test
