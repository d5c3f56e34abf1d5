#include "policies/placement/server_sets.hpp"

#include <algorithm>

#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

/// Of GPUs first to end - 1 that with the smallest (held + 1) / slots; the first of equal ones.
std::uint32_t least_taken(const Placement& placement, const std::vector<std::uint64_t>& slots,
                          std::uint32_t first, std::uint32_t end) {
  std::uint32_t best = end;
  for (std::uint32_t gpu = first; gpu < end; ++gpu) {
    if (placement.held(gpu) >= slots[gpu]) continue;
    if (best == end || (placement.held(gpu) + 1) * slots[best] < (placement.held(best) + 1) * slots[gpu])
      best = gpu;
  }
  return best;
}

}  // namespace

void fill_with_most_used(const PlacementShape& shape, const ActivationCounts& counts, ServerSets& sets) {
  const std::vector<std::uint64_t> slots = server_slots(shape);
  for (std::size_t server = 0; server < sets.servers(); ++server) {
    if (sets.size(server) >= slots[server]) continue;
    for (const std::uint32_t index : by_descending(counts.of_server(server))) {
      if (sets.size(server) >= slots[server]) break;
      const std::uint32_t layer = index / shape.experts, expert = index % shape.experts;
      if (!sets.has(server, layer, expert)) sets.insert(server, layer, expert);
    }
  }
}

Placement deal_to_gpus(const PlacementShape& shape, const ActivationCounts& counts, const ServerSets& sets) {
  const std::vector<std::uint64_t> slots = gpu_slots(shape);
  Placement placement(shape);
  for (std::size_t server = 0; server < sets.servers(); ++server) {
    const std::uint32_t first = placement.first_gpu(server), end = placement.first_gpu(server + 1);
    for (std::uint32_t layer = 0; layer < shape.layers && sets.size(server) > 0; ++layer)
      for (const std::uint32_t expert : by_descending(counts.layer(server, layer)))
        if (sets.has(server, layer, expert))
          placement.place(least_taken(placement, slots, first, end), layer, expert);
  }
  return placement;
}

}  // namespace moelab
