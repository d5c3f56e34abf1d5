// What tests of cache policies share: a cache's shape in round numbers, and what it holds.
#pragma once

#include <cstdint>
#include <set>

#include "policies/cache/cache.hpp"
#include "tests/policies/random_numbers.hpp"

namespace moelab::test {

using Objects = std::set<std::uint32_t>;

/// One layer of so many experts, with places for so many of them in full and a bit to spare.
inline CacheShape shape_of(std::uint32_t objects, std::uint32_t places) {
  CacheShape shape;
  shape.objects = objects;
  shape.capacity_bytes = places * 10.0 + 9.5;
  shape.bytes = {10, 7, 5, 2, 0};
  return shape;
}

inline Objects held_by(const CachePolicy& cache, std::uint32_t objects) {
  Objects held;
  for (std::uint32_t o = 0; o < objects; ++o)
    if (cache.state(o) != State::M) held.insert(o);
  return held;
}

}  // namespace moelab::test
