// smartmoe: one copy of each expert, GPUs of equal load (placement module of SmartMoE, Zhai et al., USENIX
// ATC 2023; greedy_gen_mapping_from_history in fmoe/smartmoe/mapping.py of its published artifact).
//
//   each layer: experts by load, greatest first; each to the GPU of least load so far that has a slot left
//   load of an expert: its counts on all servers
//
// The published code has equal GPUs, E / G experts of a layer on each, and keeps an expert on its old GPU
// where that is as good. Here the slots are those of `uniform` (slots.hpp), which are the same where all are
// equal, and equal loads go to the first GPU; what would move between equal GPUs is not known to a policy of
// this family. With copies > 1 the load is shared by the copies, on different servers.
#include <numeric>

#include "policies/placement/coverage.hpp"
#include "policies/placement/placement.hpp"
#include "policies/placement/slots.hpp"

namespace moelab {
namespace {

class LoadBalance {
 public:
  LoadBalance(const PlacementShape& shape, const ActivationCounts& counts)
      : shape_(shape),
        counts_(counts),
        slots_(slots_by_layer(
            even_shares(gpu_slots(shape), std::uint64_t{shape.layers} * shape.experts * shape.copies),
            shape.layers)),
        placement_(shape) {}

  Placement run() {
    for (std::uint32_t layer = 0; layer < shape_.layers; ++layer) {
      gpu_load_.assign(placement_.gpus(), 0);
      const std::vector<double> load = layer_load(counts_, layer);
      for (const std::uint32_t expert : by_descending(load))
        for (std::uint32_t copy = 0; copy < shape_.copies; ++copy)
          place(layer, expert, load[expert] / shape_.copies);
    }
    cover(shape_, counts_, placement_);
    return std::move(placement_);
  }

 private:
  void place(std::uint32_t layer, std::uint32_t expert, double load) {
    const std::uint32_t none = placement_.gpus();
    std::uint32_t best = none;
    for (std::uint32_t gpu = 0; gpu < none; ++gpu)
      if (slots_[std::size_t{gpu} * shape_.layers + layer] > 0 &&
          (best == none || gpu_load_[gpu] < gpu_load_[best]) &&
          !placement_.on_server(placement_.server_of(gpu), layer, expert))
        best = gpu;
    if (best == none) return;
    --slots_[std::size_t{best} * shape_.layers + layer];
    gpu_load_[best] += load;
    placement_.place(best, layer, expert);
  }

  const PlacementShape& shape_;
  const ActivationCounts& counts_;
  std::vector<std::uint32_t> slots_;  // [gpus, layers], left
  Placement placement_;
  std::vector<double> gpu_load_;  // [gpus], of the layer
};

Placement place_smartmoe(const PlacementShape& shape, const ActivationCounts& counts,
                         const PolicyParameters&) {
  check_placement_shape(shape);
  check_activation_counts(shape, counts);
  return LoadBalance(shape, counts).run();
}

}  // namespace

PlacementPolicyEntry smartmoe_entry() {
  return {.info = {.name = "smartmoe",
                   .help = "one copy of each expert, the most used first to the GPU of least load",
                   .source = "SmartMoE (USENIX ATC 2023), its expert placement; Prism section IV-A"},
          .place = place_smartmoe};
}

}  // namespace moelab
