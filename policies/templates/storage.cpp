// @name@: a storage policy. Experts of every layer go to the nearest backend that has room, layer by layer.
#include <moelab/policy/policy_library.hpp>
#include <moelab/policy/split_check.hpp>

#include <algorithm>

namespace {

moelab::StorageSplit fill(const moelab::StorageShape& shape, const moelab::PolicyParameters&) {
  moelab::check_storage_shape(shape);
  moelab::StorageSplit split(shape);  // all on the first backend
  const std::size_t last = shape.backends.size() - 1;
  for (std::uint32_t layer = shape.layers; layer-- > 0;)
    while (split.experts(layer, 0) > 0 && (split.total(0) > moelab::expert_capacity(shape, 0) ||
                                           split.gpu_bytes() > shape.gpu_budget_bytes)) {
      std::size_t to = 1;
      while (to < last && (split.room(to) == 0 || shape.backends[to].gpu_bytes_per_byte > 0)) ++to;
      if (to > last || split.room(to) == 0) break;
      split.move(layer, 0, to, 1);
    }
  moelab::check_fits(split, "@name@");
  return split;
}

moelab::StoragePolicyEntry mine() {
  return {.info = {.name = "@name@", .help = "the first layers stay on the first backend", .source = "mine"},
          .split = fill};
}

}  // namespace

MOELAB_POLICIES(mine())
