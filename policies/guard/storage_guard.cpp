// Storage and residency: splits of experts over backends.
#include "models/units.hpp"
#include "policies/guard/policy_guard.hpp"

namespace moelab {
namespace {

bool same_dimensions(const StorageShape& a, const StorageShape& b) {
  return a.layers == b.layers && a.experts == b.experts && a.backends.size() == b.backends.size();
}

/// Of a split of the shape: each layer has all its experts, and the totals are those of the layers.
void check_layers(const PolicyGuard& guard, const StorageSplit& split, const StorageShape& shape) {
  if (!same_dimensions(split.shape(), shape))
    guard.broken("gives a split of " + counted(split.shape().layers, "layer") + " of " +
                 counted(split.shape().experts, "expert") + " over " +
                 counted(split.shape().backends.size(), "backend") + ", asked for was one of " +
                 std::to_string(shape.layers) + ", " + std::to_string(shape.experts) + " and " +
                 std::to_string(shape.backends.size()));
  if (split.shape() != shape)
    guard.broken("gives a split of other backends or experts than those that it was asked for");
  std::vector<std::uint64_t> totals(shape.backends.size(), 0);
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    std::uint64_t experts = 0;
    for (std::size_t k = 0; k < totals.size(); ++k) {
      experts += split.experts(layer, k);
      totals[k] += split.experts(layer, k);
    }
    if (experts != shape.experts)
      guard.broken("puts " + counted(experts, "expert") + " of layer " + std::to_string(layer) +
                   " somewhere, it has " + std::to_string(shape.experts));
  }
  for (std::size_t k = 0; k < totals.size(); ++k)
    if (totals[k] != split.total(k))
      guard.broken("says that backend '" + shape.backends[k].name + "' has " +
                   counted(split.total(k), "expert") + ", its layers' come to " + std::to_string(totals[k]));
}

/// `before`: what may lie on each backend in any case.
void check_capacities(const PolicyGuard& guard, const StorageSplit& split, const StorageSplit* before) {
  const StorageShape& shape = split.shape();
  for (std::size_t k = 0; k < shape.backends.size(); ++k)
    if (split.total(k) > expert_capacity(shape, k) &&
        (before == nullptr || split.total(k) > before->total(k)))
      guard.broken("puts " + counted(split.total(k), "expert") + " on backend '" + shape.backends[k].name +
                   "', which has capacity for " + std::to_string(expert_capacity(shape, k)));
}

class GuardedResidency final : public ResidencyPolicy {
 public:
  GuardedResidency(const ResidencyPolicyEntry& entry, const PolicyParameters& parameters,
                   const GuardOptions& options)
      : policy_(made_policy(entry.info, options, [&] { return entry.make(parameters); })),
        guard_(entry.info, options) {}

  bool adjust(const ResidencyState& state, StorageSplit& split) override {
    guard_.begin_step();
    before_ = split;
    const bool moved = guard_.ask_or_be_refused([&] { return policy_->adjust(state, split); });
    check_layers(guard_, split, before_->shape());
    check_capacities(guard_, split, &*before_);
    if (!moved && !(split == *before_)) guard_.broken("moves experts, and says that it moved none");
    const double left = state.gpu_bytes - state.kv_bytes;
    if (moved && split.gpu_bytes() > before_->gpu_bytes() && !within(split.gpu_bytes(), left))
      guard_.broken("moves experts to the GPU until they take " + to_string(Bytes(split.gpu_bytes())) +
                    ", the KV cache leaves them " + to_string(Bytes(left)));
    return moved;
  }

 private:
  std::unique_ptr<ResidencyPolicy> policy_;
  PolicyGuard guard_;
  std::optional<StorageSplit> before_;  // kept for its memory
};

}  // namespace

StorageSplit split_storage(const StoragePolicyEntry& entry, const StorageShape& shape,
                           const PolicyParameters& parameters, const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.split(shape, parameters);
  const PolicyGuard guard(entry.info, options);
  StorageSplit split = guard.ask_or_be_refused([&] { return entry.split(shape, parameters); });
  check_layers(guard, split, shape);
  check_capacities(guard, split, nullptr);
  if (!within(split.gpu_bytes(), shape.gpu_budget_bytes))
    guard.broken("takes " + to_string(Bytes(split.gpu_bytes())) + " of GPU memory, the budget is " +
                 to_string(Bytes(shape.gpu_budget_bytes)));
  return split;
}

std::unique_ptr<ResidencyPolicy> make_residency_policy(const ResidencyPolicyEntry& entry,
                                                       const PolicyParameters& parameters,
                                                       const GuardOptions& options) {
  if (!is_guarded(entry.info, options)) return entry.make(parameters);
  return std::make_unique<GuardedResidency>(entry, parameters, options);
}

}  // namespace moelab
