// whole-layer: the front layers lie on the first backend, the others on the last (FluxMoE, section 6.1).
//
//   the last backend holds all experts of the last layers: of the whole number of layers that is nearest to
//   offloaded * layers;  the first backend holds all others
//
// "The front 87.5% of expert layers are fully compressed and resident in GPU memory, while the final 12.5% of
// layers are entirely offloaded to the host DRAM": FluxMoE-H. With an uncompressed first backend it is their
// vLLM-O. A layer waits for one backend alone, so backends take turns instead of working at once.
#include <cmath>

#include "policies/checked_parameter.hpp"
#include "policies/storage/split_check.hpp"

namespace moelab {
namespace {

PolicyInfo whole_layer_info() {
  return {.name = "whole-layer",
          .help = "the front layers' experts on the first backend, the last layers' on the last",
          .source = "FluxMoE section 6.1, baselines FluxMoE-H and vLLM-O",
          .parameters = {{.name = "offloaded",
                          .unit = "",
                          .default_value = 0.125,
                          .low = 0,
                          .high = 1,
                          .help = "share of the layers whose experts lie on the last backend"}}};
}

StorageSplit split_whole_layers(const StorageShape& shape, const PolicyParameters& parameters) {
  check_storage_shape(shape);
  const double offloaded = checked_parameter(whole_layer_info(), parameters, "offloaded");
  const auto last = static_cast<std::uint32_t>(std::lround(offloaded * shape.layers));
  StorageSplit split(shape);
  for (std::uint32_t layer = shape.layers - last; layer < shape.layers; ++layer)
    split.move(layer, 0, shape.backends.size() - 1, shape.experts);
  check_fits(split, "whole-layer");
  return split;
}

}  // namespace

StoragePolicyEntry whole_layer_entry() {
  return {.info = whole_layer_info(), .split = split_whole_layers};
}

}  // namespace moelab
