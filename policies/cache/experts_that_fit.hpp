// How many experts a share of memory holds.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

namespace moelab {

/// Largest n <= limit with n * bytes_each <= bytes, as doubles compare it: the memory held then never exceeds
/// the share even where the quotient rounds up, and a share of exactly n experts holds n where it rounds
/// down. bytes >= 0, bytes_each > 0.
inline std::uint32_t experts_that_fit(double bytes, double bytes_each, std::uint32_t limit) {
  assert(bytes >= 0 && bytes_each > 0);
  auto n = static_cast<std::uint32_t>(std::min(std::floor(bytes / bytes_each), static_cast<double>(limit)));
  while (n < limit && (n + 1.0) * bytes_each <= bytes) ++n;
  while (n > 0 && n * bytes_each > bytes) --n;
  return n;
}

}  // namespace moelab
