// Storage family: where the experts of each layer lie when a layer's experts are streamed into the GPU's
// expert window before it runs (FluxMoE, Liu et al., section 4.2). A backend is a place together with what it
// takes to make an expert ready from there: compressed in GPU memory (decode), resident in GPU memory
// (nothing), host memory (link), NVMe. All backends work at once, so a layer is ready when the last of them
// is.
//
// A policy decides once, before a run; the residency family moves experts later.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"

namespace moelab {

struct StorageBackend {
  std::string name;
  /// Plain (BF16) bytes made ready a second; infinity: nothing to do, as for uncompressed resident experts.
  double bytes_per_second = 0;
  /// GPU memory that a stored plain byte takes: resident 1, compressed 0.8 or so, host or NVMe 0.
  double gpu_bytes_per_byte = 0;
  double capacity_bytes = std::numeric_limits<double>::infinity();  // of the place itself, plain bytes
  bool operator==(const StorageBackend&) const = default;
};

struct StorageShape {
  std::uint32_t layers = 0;
  std::uint32_t experts = 0;                  // a layer
  double expert_bytes = 0;                    // plain; of one rank's part of an expert
  std::vector<StorageBackend> backends = {};  // the GPU's first, the host's or NVMe last
  double gpu_budget_bytes = std::numeric_limits<double>::infinity();  // for stored experts, not the window
  double compute_s = 0;  // of one layer with its weights resident; 0: not known
  bool operator==(const StorageShape&) const = default;
};

/// Throws InputError when the shape cannot be used: no layers, experts or backends, or too many; a backend
/// without name or bandwidth, or two of one name; sizes, times or budgets that are negative or not numbers.
void check_storage_shape(const StorageShape& shape);

/// How many experts of each layer lie on each backend; every layer has shape.experts in all. A copy shares
/// the shape, and copying into a split of the same shape allocates nothing.
class StorageSplit {
 public:
  /// All experts on the first backend.
  explicit StorageSplit(const StorageShape& shape);

  const StorageShape& shape() const { return *shape_; }
  std::uint32_t experts(std::uint32_t layer, std::size_t backend) const {
    return experts_[layer * totals_.size() + backend];
  }
  /// Of all layers, on a backend.
  std::uint64_t total(std::size_t backend) const { return totals_[backend]; }
  /// How many experts more a backend can hold.
  std::uint64_t room(std::size_t backend) const;
  /// `count` experts of a layer, no more than lie on `from` and than there is room for on `to`.
  void move(std::uint32_t layer, std::size_t from, std::size_t to, std::uint32_t count);
  /// Experts of a layer that a backend has more (negative: fewer) than in `before`: what moved since.
  std::int64_t gained(const StorageSplit& before, std::uint32_t layer, std::size_t backend) const {
    return std::int64_t{experts(layer, backend)} - before.experts(layer, backend);
  }

  /// tau_k of Eq. 6: seconds in which a backend makes its experts of a layer ready.
  double load_seconds(std::uint32_t layer, std::size_t backend) const;
  /// tau_load_layer of Eq. 9: the longest of them.
  double load_seconds(std::uint32_t layer) const;
  /// tau_load of Eq. 10: the sum over the layers.
  double load_seconds() const;
  /// Of the slowest layer.
  double longest_load_seconds() const;
  /// C_exp: GPU memory that the stored experts take.
  double gpu_bytes() const;
  /// alpha: share of the experts on backends that take GPU memory.
  double gpu_share() const;
  bool operator==(const StorageSplit& other) const { return experts_ == other.experts_; }

 private:
  std::shared_ptr<const StorageShape> shape_;
  std::vector<std::uint32_t> experts_;  // [layers, backends]
  std::vector<std::uint64_t> totals_;   // [backends]
};

/// Seconds in which a backend makes `experts` experts ready.
inline double load_seconds(const StorageShape& shape, std::size_t backend, double experts) {
  return experts * shape.expert_bytes / shape.backends[backend].bytes_per_second;
}
/// Experts a backend has capacity for, at most all of the model.
std::uint64_t expert_capacity(const StorageShape& shape, std::size_t backend);
/// GPU memory of `totals[k]` experts on each backend k.
double gpu_bytes(const StorageShape& shape, const std::vector<std::uint64_t>& totals);

struct StoragePolicyEntry {
  PolicyInfo info;
  /// Throws InputError for a shape that check_storage_shape refuses, for parameters out of range, and where
  /// the experts do not fit the capacities and the budget as the policy would have them.
  std::function<StorageSplit(const StorageShape& shape, const PolicyParameters& parameters)> split;
};
/// The family's one table.
PolicyTable<StoragePolicyEntry>& storage_policies();
/// nullptr when there is no such policy.
const StoragePolicyEntry* find_storage_policy(std::string_view name);

}  // namespace moelab
