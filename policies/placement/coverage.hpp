// The last resort of policies that place experts one by one: coverage, whatever they have placed.
#pragma once

#include "policies/placement/placement.hpp"

namespace moelab {

/// Places experts until each is on shape.copies servers that are up. The shape must have passed its check,
/// the placement must fit it. An expert that misses a copy goes to the GPU with most free slots on a server
/// without it; where there is none, to a server that holds some expert twice or has the least used of those
/// that are on more servers than they must; where there is none either, experts move from server to server,
/// along a shortest chain that ends at such a place.
///
///   servers are nodes; n -> m where an expert is on n and not on m; breadth first from the servers without
///   the expert to one with a slot to spare. As in a bipartite matching, a placement that is not complete
///   always has such a chain when a complete one exists.
void cover(const PlacementShape& shape, const ActivationCounts& counts, Placement& placement);

}  // namespace moelab
