// Hits of caches of every size, against caches written straight from the rules, and Belady also against the
// best of all possible replacements.
#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <map>
#include <set>

#include "tests/random_runs.hpp"
#include "tests/traces/trace_files.hpp"
#include "traces/random.hpp"
#include "traces/statistics/cache_curves.hpp"
#include "traces/statistics/cache_fifo.hpp"

namespace moelab::cache_curves_test {
namespace {

using moelab::test::error_of;

using Lookups = std::vector<std::uint16_t>;  // experts in the order in which they are looked up

// The three caches below are lists of experts, the next one to leave in front.

std::uint64_t lru_hits(const Lookups& lookups, std::size_t capacity) {
  std::uint64_t hits = 0;
  std::list<std::uint16_t> cache;
  for (const std::uint16_t expert : lookups) {
    const auto found = std::find(cache.begin(), cache.end(), expert);
    if (found != cache.end()) {
      ++hits;
      cache.erase(found);
    } else if (cache.size() == capacity) {
      cache.pop_front();
    }
    cache.push_back(expert);
  }
  return hits;
}

std::uint64_t fifo_hits(const Lookups& lookups, std::size_t capacity) {
  std::uint64_t hits = 0;
  std::list<std::uint16_t> cache;
  for (const std::uint16_t expert : lookups) {
    if (std::find(cache.begin(), cache.end(), expert) != cache.end()) {
      ++hits;
      continue;
    }
    if (cache.size() == capacity) cache.pop_front();
    cache.push_back(expert);
  }
  return hits;
}

template <bool forgets>
std::uint64_t lfu_hits(const Lookups& lookups, std::size_t capacity) {
  struct Entry {
    std::uint64_t count, last;
  };
  std::uint64_t hits = 0, now = 0;
  std::map<std::uint16_t, Entry> cache;
  std::map<std::uint16_t, std::uint64_t> ever;
  for (const std::uint16_t expert : lookups) {
    ++now, ++ever[expert];
    if (const auto found = cache.find(expert); found != cache.end()) {
      ++hits;
      found->second = {found->second.count + 1, now};
      continue;
    }
    if (cache.size() == capacity)
      cache.erase(std::min_element(cache.begin(), cache.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.count, a.second.last) < std::pair(b.second.count, b.second.last);
      }));
    cache[expert] = {forgets ? 1 : ever[expert], now};
  }
  return hits;
}

std::uint64_t belady_hits(const Lookups& lookups, std::size_t capacity) {
  std::uint64_t hits = 0;
  std::set<std::uint16_t> cache;
  for (auto now = lookups.begin(); now != lookups.end(); ++now) {
    if (cache.count(*now) > 0) {
      ++hits;
      continue;
    }
    if (cache.size() == capacity) {
      const auto next = [&](std::uint16_t expert) { return std::find(now, lookups.end(), expert); };
      // the first of those looked up farthest away: the smallest id among those never looked up again
      cache.erase(std::max_element(cache.begin(), cache.end(),
                                   [&](std::uint16_t a, std::uint16_t b) { return next(a) < next(b); }));
    }
    cache.insert(*now);
  }
  return hits;
}

/// The most hits that any choices of who leaves can have: for each content of the cache (a set of bits), the
/// most hits on the way to it.
std::uint64_t best_hits(const Lookups& lookups, std::size_t capacity) {
  std::map<std::uint32_t, std::uint64_t> most = {{0, 0}};
  for (const std::uint16_t expert : lookups) {
    std::map<std::uint32_t, std::uint64_t> next;
    const auto reach = [&](std::uint32_t content, std::uint64_t hits) {
      next[content] = std::max(next[content], hits);
    };
    const std::uint32_t own = std::uint32_t{1} << expert;
    for (const auto& [content, hits] : most) {
      if (content & own)
        reach(content, hits + 1);
      else if (static_cast<std::size_t>(std::popcount(content)) < capacity)
        reach(content | own, hits);
      else
        for (std::uint32_t leaver = 1; leaver <= content; leaver <<= 1)
          if (content & leaver) reach((content ^ leaver) | own, hits);
    }
    most = std::move(next);
  }
  std::uint64_t best = 0;
  for (const auto& [content, hits] : most) best = std::max(best, hits);
  return best;
}

/// Tokens at one layer, as recorded: in no particular order, kNoExpert where the layer does not run.
using Tokens = std::vector<std::vector<std::uint16_t>>;

Lookups lookups_of(const Tokens& tokens) {
  Lookups lookups;
  for (std::vector<std::uint16_t> ids : tokens) {
    if (ids.front() == kNoExpert) continue;
    std::sort(ids.begin(), ids.end());
    lookups.insert(lookups.end(), ids.begin(), ids.end());
  }
  return lookups;
}

/// Random routing: `habit` of 8 choices take a recently used or low id, as real routers do.
Tokens random_tokens(Random& random, std::uint32_t experts, std::uint32_t top_k, std::size_t count) {
  const std::uint64_t habit = random.below(9), idle = random.below(3);
  Tokens tokens;
  for (std::size_t t = 0; t < count; ++t) {
    std::vector<std::uint16_t> ids;
    while (ids.size() < top_k) {
      std::uint64_t id = random.below(experts);
      if (random.below(8) < habit) id = std::min(id, random.below(id + 1));
      if (random.below(8) < habit && !tokens.empty() && tokens.back().front() != kNoExpert)
        id = tokens.back()[random.below(top_k)];
      if (std::find(ids.begin(), ids.end(), id) == ids.end() || ids.size() + 1 > experts)
        ids.push_back(static_cast<std::uint16_t>(id));
      else if (random.below(4) == 0)  // the way out where habit finds nothing new
        for (std::uint16_t any = 0; any < experts && ids.size() < top_k; ++any)
          if (std::find(ids.begin(), ids.end(), any) == ids.end()) {
            ids.push_back(any);
            break;
          }
    }
    if (random.below(8) < idle) std::fill(ids.begin(), ids.end(), kNoExpert);
    tokens.push_back(std::move(ids));
  }
  return tokens;
}

CacheCurveChoice everything(std::uint32_t experts) {
  CacheCurveChoice choice{true, true, {}, {}};
  for (std::uint32_t c = 1; c <= experts; ++c) {
    choice.fifo.push_back(c);
    choice.lfu.push_back(c);
    choice.forgetting_lfu.push_back(c);
  }
  return choice;
}

std::vector<LayerCacheHits> counted(const std::vector<Tokens>& layers, std::uint32_t experts,
                                    const CacheCurveChoice& choice) {
  CacheCurves curves(static_cast<std::uint32_t>(layers.size()), experts, choice);
  for (std::size_t t = 0; t < layers.front().size(); ++t)
    for (std::uint32_t layer = 0; layer < layers.size(); ++layer) curves.add_token(layer, layers[layer][t]);
  return curves.finish();
}

std::vector<std::uint64_t> at_all(std::uint64_t (*hits)(const Lookups&, std::size_t), const Lookups& lookups,
                                  std::uint32_t experts) {
  std::vector<std::uint64_t> all;
  for (std::size_t c = 1; c <= experts; ++c) all.push_back(hits(lookups, c));
  return all;
}

void check_against_the_rules(const Tokens& tokens, const LayerCacheHits& hits, std::uint32_t experts) {
  const Lookups lookups = lookups_of(tokens);
  CHECK(hits.lookups == lookups.size());
  CHECK(hits.lru == at_all(lru_hits, lookups, experts));
  CHECK(hits.fifo == at_all(fifo_hits, lookups, experts));
  CHECK(hits.lfu == at_all(lfu_hits<false>, lookups, experts));
  CHECK(hits.forgetting_lfu == at_all(lfu_hits<true>, lookups, experts));
  CHECK(hits.belady == at_all(belady_hits, lookups, experts));
}

}  // namespace

TEST_CASE("cache hits at every capacity are those of caches written from the rules") {
  Random random(1);
  for (int i = 0; i < moelab::test::random_runs(1500); ++i) {
    const auto experts = static_cast<std::uint32_t>(1 + random.below(12));
    const auto top_k = static_cast<std::uint32_t>(1 + random.below(std::min<std::uint32_t>(experts, 4)));
    std::vector<Tokens> layers(1 + random.below(3));
    const std::size_t tokens = 1 + random.below(60);
    for (Tokens& layer : layers) layer = random_tokens(random, experts, top_k, tokens);
    const auto hits = counted(layers, experts, everything(experts));
    for (std::size_t l = 0; l < layers.size(); ++l) check_against_the_rules(layers[l], hits[l], experts);
  }
}

TEST_CASE("Belady's hits at every capacity are the most that any replacement can have") {
  Random random(2);
  for (int i = 0; i < moelab::test::random_runs(400); ++i) {
    const auto experts = static_cast<std::uint32_t>(2 + random.below(5));
    const auto top_k = static_cast<std::uint32_t>(1 + random.below(2));
    const Tokens tokens = random_tokens(random, experts, top_k, 1 + random.below(25));
    const auto hits = counted({tokens}, experts, {false, true, {}, {}});
    CHECK(hits[0].belady == at_all(best_hits, lookups_of(tokens), experts));
    CHECK(hits[0].lru.empty());
  }
}

TEST_CASE("cache hits with hundreds of experts, and over many blocks of lookups") {
  Random random(3);
  for (const std::uint32_t experts : {7u, 64u, 254u, 255u, 256u, 257u, 600u}) {
    if (test::kFewerRuns && (experts < 254 || experts > 257)) continue;  // those around one byte's limit
    CAPTURE(experts);
    const std::uint32_t top_k = experts < 10 ? 3 : 8;
    const CacheCurveChoice choice{true,
                                  true,
                                  {1, 2, experts / 3, experts - 1, experts},
                                  {experts / 3, experts},
                                  {experts / 3, experts}};
    Tokens tokens = random_tokens(random, experts, top_k, experts < 10 ? 3000 : test::random_runs(450, 60));
    std::vector<std::uint16_t> all(experts);  // the last ranks and marks are used too
    for (std::uint16_t id = 0; id < experts; ++id) all[id] = id;
    tokens[20] = tokens[40] = all;
    const LayerCacheHits hits = counted({tokens}, experts, choice)[0];
    const Lookups lookups = lookups_of(tokens);
    for (std::size_t i = 0; i < choice.fifo.size(); ++i) {
      const std::uint32_t capacity = choice.fifo[i];
      CHECK(hits.fifo[i] == fifo_hits(lookups, capacity));
      CHECK(hits.lru[capacity - 1] == lru_hits(lookups, capacity));
      CHECK(hits.belady[capacity - 1] == belady_hits(lookups, capacity));
    }
    CHECK(hits.lfu == std::vector{lfu_hits<false>(lookups, experts / 3), lfu_hits<false>(lookups, experts)});
    CHECK(hits.forgetting_lfu ==
          std::vector{lfu_hits<true>(lookups, experts / 3), lfu_hits<true>(lookups, experts)});
  }
}

TEST_CASE(
    "a larger LRU or Belady cache never finds less, Belady most, and a full one all but first lookups") {
  Random random(4);
  for (int i = 0; i < moelab::test::random_runs(300); ++i) {
    const auto experts = static_cast<std::uint32_t>(2 + random.below(40));
    const Tokens tokens = random_tokens(random, experts, 2, 200);
    const LayerCacheHits hits = counted({tokens}, experts, everything(experts))[0];
    const Lookups lookups = lookups_of(tokens);
    const std::uint64_t seen = std::set<std::uint16_t>(lookups.begin(), lookups.end()).size();
    CHECK(std::is_sorted(hits.lru.begin(), hits.lru.end()));
    CHECK(std::is_sorted(hits.belady.begin(), hits.belady.end()));
    for (std::uint32_t c = 0; c < experts; ++c)
      CHECK(hits.belady[c] >= std::max({hits.lru[c], hits.fifo[c], hits.lfu[c], hits.forgetting_lfu[c]}));
    for (const auto& curve : {hits.lru, hits.belady, hits.fifo, hits.lfu, hits.forgetting_lfu})
      CHECK(curve.back() == lookups.size() - seen);
  }
}

TEST_CASE("a trace's cache hits are the same on any number of threads, and where not all layers run") {
  Random random(5);
  const std::uint32_t layers = 21, experts = 9, top_k = 2;
  std::vector<Tokens> by_layer;
  for (std::uint32_t l = 0; l < layers; ++l) by_layer.push_back(random_tokens(random, experts, top_k, 900));
  by_layer[4].assign(900, {kNoExpert, kNoExpert});
  RoutingTraceBuilder builder("m", "by hand", false, layers, experts, top_k, false);
  builder.begin_request();
  for (std::size_t t = 0; t < 900; ++t) {
    std::vector<std::uint16_t> row;
    for (const Tokens& tokens : by_layer) row.insert(row.end(), tokens[t].begin(), tokens[t].end());
    builder.add_token(Phase::decode, row, {});
  }
  const RoutingTrace trace = builder.finish();
  for (const unsigned threads : {0u, 1u, 2u, 5u, 40u}) {
    const auto hits = cache_curves(trace, everything(experts), threads);
    REQUIRE(hits.size() == layers);
    // The fifth layer, which does not run, is among them.
    for (std::uint32_t l = 0; l < layers; l += moelab::test::random_runs(1u, 4u))
      check_against_the_rules(by_layer[l], hits[l], experts);
    CHECK(hits[4].lookups == 0);
  }
  CacheCurves one_by_one(layers, experts, everything(experts));  // layers that take no turns
  for (std::uint32_t l = 0; l < layers; ++l)
    for (const auto& ids : by_layer[l]) one_by_one.add_token(l, ids);
  const auto hits = one_by_one.finish();
  for (std::uint32_t l = 0; l < layers; ++l) check_against_the_rules(by_layer[l], hits[l], experts);
}

TEST_CASE("FIFO's numbers start again without a change of hits") {
  Random random(6);
  for (int i = 0; i < moelab::test::random_runs(200); ++i) {
    const Lookups lookups = lookups_of(random_tokens(random, 10, 2, 300));
    const std::vector<std::uint32_t> capacities = {10, 3, 5, 1, 9};
    CacheFifos caches(10, capacities, 40);
    for (std::size_t at = 0; at < lookups.size(); at += 7)
      caches.look_up(std::span(lookups).subspan(at, std::min<std::size_t>(7, lookups.size() - at)));
    for (std::size_t c = 0; c < capacities.size(); ++c)
      CHECK(caches.misses()[c] == lookups.size() - fifo_hits(lookups, capacities[c]));
  }
}

TEST_CASE("sizes of caches beyond any memory are refused") {
  CHECK(error_of([] {
          CacheCurves(1 << 20, 65535, {true, false, {}, {}});
        }) ==
        "cache hits: 1048576 layers of 65535 experts are more than can be counted: at most 16777216 in all");
}

}  // namespace moelab::cache_curves_test
