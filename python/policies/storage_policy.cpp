// moelab.StoragePolicy and moelab.ResidencyPolicy: splits cross as arrays [layers, backends].
#include "policies/guard/policy_error.hpp"
#include "python/policies/families.hpp"

namespace moelab {
namespace {

nb::object shape_in_python(const StorageShape& shape) {
  nb::list backends;
  for (const StorageBackend& b : shape.backends)
    backends.append(named("StorageBackend", nb::str(b.name.c_str()), b.bytes_per_second, b.gpu_bytes_per_byte,
                          b.capacity_bytes));
  return named("StorageShape", shape.layers, shape.experts, shape.expert_bytes, nb::tuple(backends),
               shape.gpu_budget_bytes, shape.compute_s);
}

/// The split that an array says. Throws UnusableAnswer where a layer has not all its experts.
StorageSplit split_of(const StorageShape& shape, const std::vector<std::int64_t>& experts) {
  StorageSplit split(shape);
  const std::size_t backends = shape.backends.size();
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    std::int64_t left = shape.experts;
    for (std::size_t k = 0; k < backends; ++k) {
      const std::int64_t here = experts[layer * backends + k];
      if (here < 0 || here > left || (k + 1 == backends && here != left))
        throw UnusableAnswer("does not put the " + std::to_string(shape.experts) + " experts of layer " +
                             std::to_string(layer) + " on backends, each once: backend '" +
                             shape.backends[k].name + "' gets " + std::to_string(here) + " where " +
                             std::to_string(left) + " are left");
      left -= here;
      if (k > 0) split.move(layer, 0, k, static_cast<std::uint32_t>(here));
    }
  }
  return split;
}

std::vector<std::int64_t> experts_of(const StorageSplit& split) {
  std::vector<std::int64_t> experts;
  for (std::uint32_t layer = 0; layer < split.shape().layers; ++layer)
    for (std::size_t k = 0; k < split.shape().backends.size(); ++k)
      experts.push_back(split.experts(layer, k));
  return experts;
}

class PythonResidency final : public ResidencyPolicy {
 public:
  PythonResidency(const PythonPolicy& type, const PolicyParameters& parameters) {
    in_python([&] { adjust_ = Held(type.make(parameters).attr("adjust")); });
  }

  bool adjust(const ResidencyState& state, StorageSplit& split) override {
    const std::vector<std::int64_t> before = experts_of(split);
    const StorageShape& shape = split.shape();
    const std::vector<std::int64_t> after = in_python([&] {
      if (!shape_ || !(shape == known_)) {
        shape_ = Held(shape_in_python(shape));
        known_ = shape;
      }
      const nb::object array = new_array<std::int64_t>(before, {shape.layers, shape.backends.size()}, true);
      adjust_.get()(
          named("ResidencyState", state.iteration, state.compute_s, state.gpu_bytes, state.kv_bytes),
          shape_.get(), array);
      return whole_numbers(array, "adjust", {shape.layers, shape.backends.size()});
    });
    if (after == before) return false;
    split = split_of(shape, after);
    return true;
  }

 private:
  Held adjust_, shape_;
  StorageShape known_;  // that shape_ is of
};

}  // namespace

StoragePolicyEntry storage_entry(const PythonPolicy& type) {
  return {.info = type.info, .split = [&type](const StorageShape& shape, const PolicyParameters& parameters) {
            check_storage_shape(shape);
            return split_of(shape, in_python([&] {
                              return whole_numbers(
                                  type.make(parameters).attr("split")(shape_in_python(shape)), "split",
                                  {shape.layers, shape.backends.size()});
                            }));
          }};
}

ResidencyPolicyEntry residency_entry(const PythonPolicy& type) {
  return {.info = type.info,
          .make = [&type](const PolicyParameters& parameters) -> std::unique_ptr<ResidencyPolicy> {
            return std::make_unique<PythonResidency>(type, parameters);
          }};
}

}  // namespace moelab
