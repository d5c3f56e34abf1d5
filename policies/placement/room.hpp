// Whether a cluster has room for its experts at all.
#pragma once

#include <cstdint>

#include "policies/placement/placement.hpp"

namespace moelab {

/// Experts, each as often as it is wanted (PlacementShape::copies), that all servers have no room for.
std::uint64_t missing_slots(const PlacementShape& shape);

}  // namespace moelab
