#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

void check_dimensions(const PolicyGuard& guard, const PlacementShape& shape, const Placement& placement) {
  bool same = placement.servers() == shape.servers.size() && placement.layers() == shape.layers &&
              placement.experts() == shape.experts;
  for (std::size_t n = 0; same && n < shape.servers.size(); ++n)
    same = placement.first_gpu(n + 1) - placement.first_gpu(n) == shape.servers[n].gpu_bytes.size();
  if (!same)
    guard.broken("gives a placement of " + counted(placement.layers(), "layer") + " of " +
                 counted(placement.experts(), "expert") + " on " + counted(placement.gpus(), "GPU") + " of " +
                 counted(placement.servers(), "server") + ", which is not the cluster's");
}

/// Counts anew what a placement says of an expert, and adds it to what each GPU holds.
void check_expert(const PolicyGuard& guard, const PlacementShape& shape, const Placement& placement,
                  std::uint32_t layer, std::uint32_t expert, std::vector<std::uint64_t>& held) {
  const std::string which = "expert " + std::to_string(expert) + " of layer " + std::to_string(layer);
  std::uint32_t copies = 0;
  std::size_t holders = 0;
  for (std::size_t n = 0; n < shape.servers.size(); ++n) {
    std::uint32_t on_server = 0;
    for (std::uint32_t gpu = placement.first_gpu(n); gpu < placement.first_gpu(n + 1); ++gpu)
      if (placement.on_gpu(gpu, layer, expert)) {
        ++on_server;
        ++held[gpu];
      }
    if (on_server > 0 && !shape.servers[n].up)
      guard.broken("puts " + which + " on server " + std::to_string(n) + ", which is down");
    if (on_server != placement.gpus_with(n, layer, expert))
      guard.broken("places " + which + " twice on a GPU of server " + std::to_string(n));
    copies += on_server > 0 ? 1 : 0;
    holders += on_server;
  }
  if (copies < shape.copies)
    guard.broken("puts " + which + " on " + counted(copies, "server") + ", it is to be on " +
                 std::to_string(shape.copies));
  if (copies != placement.copies(layer, expert) || holders != placement.holders(layer, expert).size())
    guard.broken("counts " + counted(placement.copies(layer, expert), "server") + " with " + which +
                 ", there are " + std::to_string(copies));
}

}  // namespace

Placement place_experts(const PlacementPolicyEntry& entry, const PlacementShape& shape,
                        const ActivationCounts& counts, const PolicyParameters& parameters,
                        const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.place(shape, counts, parameters);
  const PolicyGuard guard(entry.info, options);
  Placement placement = guard.ask_or_be_refused([&] { return entry.place(shape, counts, parameters); });
  check_dimensions(guard, shape, placement);
  std::vector<std::uint64_t> held(placement.gpus(), 0);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    for (std::uint32_t expert = 0; expert < shape.experts; ++expert)
      check_expert(guard, shape, placement, layer, expert, held);
  std::uint32_t gpu = 0;
  for (const PlacementServer& server : shape.servers)
    for (const double memory : server.gpu_bytes) {
      const double bytes = static_cast<double>(held[gpu]) * shape.expert_bytes;
      if (!within(bytes, memory))
        guard.broken("puts " + counted(held[gpu], "expert") + " (" + to_string(Bytes(bytes)) + ") on GPU " +
                     std::to_string(gpu) + ", which has " + to_string(Bytes(memory)) + " for them");
      ++gpu;
    }
  return placement;
}

}  // namespace moelab
