#include "traces/portable_math.hpp"

#include <cassert>
#include <cmath>

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
