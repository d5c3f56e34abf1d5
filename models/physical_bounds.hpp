// What any machine has: the one table of how small and how large a quantity of each kind may be, wherever a
// user gives it. Arithmetic on what passes neither overflows nor vanishes. Zero is for each key to allow or
// not; the table is of all other values.
#pragma once

#include <string>

#include "models/units.hpp"

namespace moelab {

/// Least and most of a kind of quantity, of either sign, in its base unit.
struct PhysicalBounds {
  double least, most;
};

/// Q: Seconds, Bytes, BytesPerSecond, Flops, FlopsPerSecond, or double for a number without a unit: a share,
/// a factor, a rate of requests, a count.
template <class Q>
PhysicalBounds physical_bounds(Q);
/// " is more than any machine has; expected 1 B/s to 1e6 TB/s", to stand behind what was given; "" for 0
/// and what is within the bounds. A NaN is never within.
template <class Q>
std::string beyond_physical(Q value);

}  // namespace moelab
