// What `random` and `redundance` start from.
#pragma once

#include "policies/placement/draws.hpp"
#include "policies/placement/placement.hpp"

namespace moelab {

/// Every expert on shape.copies servers, and no more than must be for room; experts in random order, each on
/// a random GPU of those with a free slot on servers without it. The shape must have passed its check.
Placement place_randomly(const PlacementShape& shape, const ActivationCounts& counts,
                         PlacementRandom& random);

}  // namespace moelab
