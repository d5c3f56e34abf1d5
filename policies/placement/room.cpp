#include "policies/placement/room.hpp"

#include <algorithm>
#include <numeric>

#include "policies/placement/slots.hpp"

namespace moelab {

std::uint64_t missing_slots(const PlacementShape& shape) {
  const std::vector<std::uint64_t> slots = server_slots(shape);
  const std::uint64_t room = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
  const std::uint64_t all = std::uint64_t{shape.layers} * shape.experts * shape.copies;
  return all - std::min(all, room);
}

}  // namespace moelab
