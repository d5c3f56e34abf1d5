// What tests of caches of one state share: traces, the serving loop's protocol, and the comparison with a
// naive twin.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "policies/cache/cache.hpp"
#include "tests/policies/random_numbers.hpp"
#include "tests/random_runs.hpp"

namespace moelab::naive_cache {

using namespace moelab::test;

using Step = std::vector<std::uint32_t>;  // experts used, ascending
using Trace = std::vector<Step>;

inline std::unique_ptr<CachePolicy> make(std::string_view name, const CacheShape& shape,
                                         const PolicyParameters& parameters = {}) {
  const CachePolicyEntry* entry = find_cache_policy(name);
  REQUIRE(entry != nullptr);
  return entry->make(shape, parameters);
}

/// A cache of `places` full experts of 10 bytes and a bit that is not enough for one more.
inline CacheShape full_only(std::uint32_t objects, std::uint32_t places) {
  CacheShape shape;
  shape.objects = objects;
  shape.capacity_bytes = places * 10.0 + 9.5;
  shape.bytes = {10, 7, 5, 2, 0};
  shape.pool_experts = {places, 0, 0, 0, 0};
  return shape;
}

enum class Kind { uniform, zipf, loop, scan };
inline constexpr Kind kKinds[] = {Kind::uniform, Kind::zipf, Kind::loop, Kind::scan};

/// `steps` steps of 1 to 4 experts. loop: round and round (LRU's worst case); scan: a hot set and a sweep.
inline Trace trace_of(Kind kind, Random& random, std::uint32_t objects, std::uint32_t steps) {
  Trace trace;
  std::uint32_t next = 0;
  for (std::uint32_t t = 0; t < steps; ++t) {
    std::set<std::uint32_t> step;
    const std::uint32_t wanted = 1 + below(random, std::min(4U, objects));
    while (step.size() < wanted) {
      std::uint32_t object = below(random, objects);
      if (kind == Kind::zipf)
        object = std::min(object, std::min(below(random, objects), below(random, objects)));
      if (kind == Kind::loop || (kind == Kind::scan && below(random, 2) == 0))
        object = next++ % objects;
      else if (kind == Kind::scan)
        object %= std::min(3U, objects);
      step.insert(object);
    }
    trace.emplace_back(step.begin(), step.end());
  }
  return trace;
}

/// next_use of every use: the next step that uses the expert.
inline std::vector<std::vector<std::uint64_t>> next_uses(const Trace& trace, std::uint32_t objects) {
  std::vector<std::uint64_t> later(objects, kNeverUsedAgain);
  std::vector<std::vector<std::uint64_t>> next(trace.size());
  for (std::size_t t = trace.size(); t-- > 0;) {
    for (const std::uint32_t o : trace[t]) next[t].push_back(later[o]);
    for (const std::uint32_t o : trace[t]) later[o] = t;
  }
  return next;
}

/// The serving loop's protocol: look all up, then report all. Returns hits.
inline std::uint64_t replay(CachePolicy& cache, const Trace& trace, std::uint32_t objects) {
  const auto next = next_uses(trace, objects);
  std::uint64_t hits = 0;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    cache.begin_step({});
    for (const std::uint32_t o : trace[t]) hits += cache.state(o) != State::M;
    for (std::size_t i = 0; i < trace[t].size(); ++i)
      cache.use({.object = trace[t][i], .score = 0.5F, .next_use = next[t][i]});
  }
  return hits;
}

/// A cache written as plainly as can be: lists, linear searches, sorted afresh every time.
struct Naive {
  std::size_t places = 0;
  virtual ~Naive() = default;
  virtual bool holds(std::uint32_t o) const = 0;
  virtual void use(std::uint32_t o) = 0;
  virtual void insert(std::uint32_t o) = 0;
};

/// Same states after every single use and prefetch, on every kind of trace.
inline void compare_with_naive(std::string_view name, const PolicyParameters& parameters,
                               const std::function<std::unique_ptr<Naive>()>& make_naive) {
  Random random(17);
  for (int instance = 0; instance < random_runs(400); ++instance) {
    const std::uint32_t objects = 1 + below(random, instance % 10 == 0 ? 200 : 12);
    const std::uint32_t places = below(random, objects + 2);
    const Trace trace = trace_of(kKinds[instance % 4], random, objects, 60);
    const auto cache = make(name, full_only(objects, places), parameters);
    const auto naive = make_naive();
    naive->places = std::min(places, objects);
    const bool prefetches = instance % 8 < 4;
    for (const Step& step : trace) {
      if (const std::uint32_t o = below(random, objects); prefetches && below(random, 3) == 0) {
        naive->insert(o);
        REQUIRE(cache->insert(o) == naive->holds(o));
      }
      for (const std::uint32_t used : step) {
        naive->use(used);
        cache->use({.object = used});
        for (std::uint32_t o = 0; o < objects; ++o)
          if ((cache->state(o) == State::F) != naive->holds(o))
            FAIL(name << ", instance " << instance << ": differs on expert " << o);
      }
    }
  }
}

struct NaiveRow {
  std::string_view name;
  PolicyParameters parameters;
  std::function<std::unique_ptr<Naive>()> make;
};

}  // namespace moelab::naive_cache
