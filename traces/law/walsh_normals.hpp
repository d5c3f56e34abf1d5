// Normal random numbers by the thousand, at a third of a cycle each, the same on every machine.
//
// 64 independent bytes, uniform on 0 .. 255, under the Walsh-Hadamard transform: each result is the sum of
// all of them with signs of its own, so that it is normal by the central limit theorem, and the results are
// uncorrelated, because the transform's rows are orthogonal (Wallace, "Fast pseudorandom generators for
// normal and exponential variates", ACM TOMS 22(1), 1996, makes normal numbers of normal ones so; here each
// block is of fresh bytes and none remembers another). Integers throughout: sums of at most 64 * 255 are
// exact in 16 bits.
//
// What is left of the bytes: excess kurtosis -1.2 / 64 = -0.019 (uniform numbers have -1.2, and it falls with
// the number of summands), squares of two results of one transform have correlation -0.0094 (-1.2 / 64 over
// the variance 2 of a squared normal number), and values are whole numbers, 1/591 of a standard deviation
// apart.
#pragma once

#include <bit>
#include <cstdint>

#include "traces/random.hpp"

namespace moelab {

class WalshNormals {
 public:
  static constexpr std::size_t kBlock = 1024;  // 16 transforms beside each other
  /// 8 sqrt((256^2 - 1) / 12): what to divide a number by for a standard deviation of 1.
  static constexpr double kDeviation = 591.2055479785003;

  /// Four generators beside each other (xoshiro256++ 1.0: Blackman, Vigna, ACM TOMS 47(4), 2021), their
  /// states drawn from `seeds`.
  explicit WalshNormals(Random seeds) {
    for (auto& word : words_)
      for (std::uint64_t& lane : word) lane = seeds.next();
  }

  /// kBlock numbers of mean 0 and standard deviation kDeviation. Number 16 i + j is result i of transform j.
  [[gnu::always_inline]] void draw(std::int16_t* to) {
    Shorts rows[8];
    Words words[4];  // in registers
    for (int i = 0; i < 4; ++i) words[i] = at<Words>(words_[i]).values;
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; j += 2) {
        UnsignedShorts bits;
        advance(words, bits);
        rows[j] = (Shorts)(bits & 255);
        rows[j + 1] = (Shorts)(bits >> 8);
      }
      transform(rows);
      for (int j = 0; j < 8; ++j) at<Shorts>(to + 128 * i + 16 * j).values = rows[j];
    }
    for (int i = 0; i < 4; ++i) at<Words>(words_[i]).values = words[i];
    for (int j = 0; j < 8; ++j) {
      for (int i = 0; i < 8; ++i) rows[i] = at<Shorts>(to + 128 * i + 16 * j).values;
      transform(rows);
      if (j == 0) rows[0] -= 8160;  // 64 times the mean of a byte: the one row of signs that are all alike
      for (int i = 0; i < 8; ++i) at<Shorts>(to + 128 * i + 16 * j).values = rows[i];
    }
  }

 private:
  // Of the compiler: arithmetic by element, in whatever instructions the function it goes into may use.
  using Words [[gnu::vector_size(32)]] = std::uint64_t;
  using Shorts [[gnu::vector_size(32)]] = std::int16_t;
  using UnsignedShorts [[gnu::vector_size(32)]] = std::uint16_t;
  template <class Values>
  struct [[gnu::packed, gnu::may_alias]] Stored {  // of any alignment
    Values values;
  };
  template <class Values>
  [[gnu::always_inline]] static Stored<Values>& at(void* place) {
    return *static_cast<Stored<Values>*>(place);
  }
  static_assert(std::endian::native == std::endian::little, "which byte of a word comes first");

  [[gnu::always_inline]] static void advance(Words* words, UnsignedShorts& bits) {
    Words &a = words[0], &b = words[1], &c = words[2], &d = words[3];
    const Words sum = a + d;
    bits = (UnsignedShorts)(((sum << 23) | (sum >> 41)) + a);
    const Words shifted = b << 17;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 45) | (d >> 19);
  }

  /// Three of the six steps, among eight rows.
  [[gnu::always_inline]] static void transform(Shorts* rows) {
    for (int step = 1; step < 8; step *= 2)
      for (int i = 0; i < 8; ++i) {
        if (i & step) continue;
        const Shorts a = rows[i], b = rows[i + step];
        rows[i] = a + b;
        rows[i + step] = a - b;
      }
  }

  std::uint64_t words_[4][4];  // [word of the state, generator]
};

}  // namespace moelab
