#include "traces/portable_math.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>

namespace moelab {
namespace {

// ln 2 in two parts: the first has its low 32 bits zero, so that small multiples of it are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

}  // namespace

// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, whose 14th term is below 2^-60.
double portable_exp(double x) {
  assert(x <= 700);
  if (x < -700) return 0;
  const double n = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = 1;
  for (int i = 14; i > 0; --i) sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(n));
}

// As above, by the series' first 7 terms (the 8th is below 2^-25), written for the vectoriser.
void portable_exp(std::span<float> values) {
  constexpr float kLog2e = 0x1.715476p+0f, kRound = 0x1.8p+23f;  // adding it leaves no place for a fraction
  constexpr float kHigh = 0x1.62ep-1f, kLow = 0x1.0bfbeap-15f;   // ln 2 in two parts
  for (float& value : values) {
    // Not below -87: of two negative numbers the one with the larger bits is the smaller.
    const float x = std::bit_cast<float>(
        std::min(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(-87.0f)));
    const float n = (x * kLog2e + kRound) - kRound;
    const float r = (x - n * kHigh) - n * kLow;
    float sum = 1.0f / 5040;
    sum = 1.0f / 720 + sum * r;
    sum = 1.0f / 120 + sum * r;
    sum = 1.0f / 24 + sum * r;
    sum = 1.0f / 6 + sum * r;
    sum = 0.5f + sum * r;
    sum = 1.0f + sum * r;
    sum = 1.0f + sum * r;
    const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
    value = sum * power;
  }
}

// x = 2^n m with sqrt(1/2) <= m < sqrt(2); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
double portable_log(double x) {
  assert(x >= 0x1p-1022);
  int n = 0;
  double m = std::frexp(x, &n);
  if (m < 0.70710678118654752) {
    m *= 2;
    --n;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int i = 23; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return n * kLn2High + (2 * s * sum + n * kLn2Low);
}

}  // namespace moelab
