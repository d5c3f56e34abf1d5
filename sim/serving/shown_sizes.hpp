// Sizes in messages that name a limit.
#pragma once

#include <algorithm>
#include <cmath>

#include "models/units.hpp"

namespace moelab {

/// To four digits, as sizes are shown: one that is shown so is within it.
inline Bytes rounded_down(Bytes size) {
  const double unit = std::pow(10, std::floor(std::log10(std::max(1.0, size.value()))) - 3);
  return Bytes(std::floor(size.value() / unit) * unit);
}

}  // namespace moelab
