// fixed: in each layer the same share of the experts lies on the last backend, the others on the first.
//
//   on the last backend: the whole number of experts nearest to offloaded * experts, the same in each layer
//
// The family's null member: with offloaded = 0 and an uncompressed first backend all experts are resident, as
// in vLLM; with a compressed one it is FluxMoE at alpha = 1, where its runtime adaptation starts (Exp#3).
// With offloaded = 0.125 it is FluxMoE in Exp#2.
#include <cmath>

#include "policies/checked_parameter.hpp"
#include "policies/storage/split_check.hpp"

namespace moelab {
namespace {

PolicyInfo fixed_split_info() {
  return {.name = "fixed",
          .help = "the same share of each layer's experts on the last backend, the rest on the first",
          .source = "the null member of the family; FluxMoE section 6, Exp#2 and Exp#3",
          .parameters = {{.name = "offloaded",
                          .unit = "",
                          .default_value = 0,
                          .low = 0,
                          .high = 1,
                          .help = "share of a layer's experts on the last backend"}}};
}

StorageSplit split_fixed(const StorageShape& shape, const PolicyParameters& parameters) {
  check_storage_shape(shape);
  const double offloaded = checked_parameter(fixed_split_info(), parameters, "offloaded");
  const auto last = static_cast<std::uint32_t>(std::lround(offloaded * shape.experts));
  StorageSplit split(shape);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer)
    split.move(layer, 0, shape.backends.size() - 1, last);
  check_fits(split, "fixed");
  return split;
}

}  // namespace

StoragePolicyEntry fixed_split_entry() {
  return {.info = fixed_split_info(), .split = split_fixed};
}

}  // namespace moelab
