// Draws for tests of policies: the same on every machine, which the standard's distributions are not.
#pragma once

#include <cstdint>
#include <random>

namespace moelab::test {

using Random = std::mt19937_64;

/// 0 .. n - 1
inline std::uint32_t below(Random& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}
inline double uniform(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace moelab::test
