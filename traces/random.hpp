// Random numbers that are the same on every machine: the standard's generators are portable, its
// distributions are not.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>
#include <utility>

namespace moelab {

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads seeds that differ in few bits. Advances `state`.
inline std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// xoshiro256** 1.0 (Blackman, Vigna, ACM TOMS 47(4), 2021), seeded by SplitMix64 as its authors advise.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }
  /// A stream of its own for each (seed, a, b): what is drawn from one does not move the others.
  Random(std::uint64_t seed, std::uint64_t a, std::uint64_t b) : Random(mixed(mixed(seed, a), b)) {}

  /// 64 random bits.
  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1): a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in 0 .. bound - 1, without bias: draws again what falls outside.
  std::uint64_t below(std::uint64_t bound) {
    assert(bound > 0);
    const std::uint64_t mask = bound == 1 ? 0 : ~std::uint64_t{0} >> std::countl_zero(bound - 1);
    std::uint64_t value = next() & mask;
    while (value >= bound) value = next() & mask;
    return value;
  }

  /// A uniform permutation (Fisher-Yates).
  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  static std::uint64_t mixed(std::uint64_t seed, std::uint64_t stream) {
    std::uint64_t state = splitmix64(seed) ^ (stream * 0xd1342543de82ef95 + 1);
    return splitmix64(state);
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace moelab
