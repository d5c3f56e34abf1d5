// Draws for placement policies: the same on every machine, which the standard's distributions are not.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace moelab {

using PlacementRandom = std::mt19937_64;

/// 0 .. n - 1; n is so far below 2^64 that the remainder favours none measurably.
inline std::size_t draw_below(PlacementRandom& random, std::size_t n) {
  return static_cast<std::size_t>(random() % n);
}

template <class Value>
void draw_order(PlacementRandom& random, std::vector<Value>& values) {
  for (std::size_t left = values.size(); left > 1; --left)
    std::swap(values[left - 1], values[draw_below(random, left)]);
}

}  // namespace moelab
