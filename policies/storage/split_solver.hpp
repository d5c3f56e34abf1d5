// The least time in which every layer can be loaded, and the splits that load within a time: what
// bandwidth-proportional and tri-state share.
//
// All is exact over whole experts, for these reasons.
// - Layers are alike, and only capacities and the GPU budget couple them: both speak of how many experts all
//   layers together have on a backend. If those totals N_k add up to layers * experts and each N_k is at most
//   layers * m_k, then dealing them to the layers in turn gives every layer all its experts and at most m_k
//   of backend k, for N_k / layers rounded up is at most m_k. So it is enough to choose totals.
// - Within load time t backend k makes m_k(t) experts of a layer ready. Of all totals within those bounds and
//   the capacities, filling the backends by GPU bytes a byte, least first, takes the least GPU memory, since
//   all experts are of one size. It takes no more at a longer t, so the least t is found by bisection, over
//   the times that whole experts can take.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/storage/storage.hpp"

namespace moelab {

class SplitSolver {
 public:
  using Totals = std::vector<std::uint64_t>;  // experts of all layers, by backend

  /// Checks the shape. Throws InputError when no split fits the capacities and the budget; `policy` is named.
  SplitSolver(const StorageShape& shape, std::string_view policy);

  /// The least time, seconds, in which each layer can be loaded, with at most `budget` bytes on the GPU (in
  /// which some split must fit).
  double least_load_seconds(double budget) const;
  /// GPU bytes of the leanest split that loads each layer in `seconds`; infinity when none does.
  double least_gpu_bytes(double seconds) const;
  /// The split of those bytes; among backends of equal GPU bytes a byte the faster is filled first. One of
  /// that load time must exist.
  StorageSplit leanest(double seconds) const;
  /// A split that loads each layer in least_load_seconds(shape.gpu_budget_bytes), its experts shared out by
  /// bandwidth as far as capacities, budget and that time allow (bandwidth_proportional.cpp).
  StorageSplit fastest() const;

 private:
  std::uint64_t experts_of_all_layers() const { return std::uint64_t{shape_.layers} * shape_.experts; }
  Totals most_within(double seconds) const;
  bool fill(Totals& totals, const Totals& most) const;
  bool can_be_completed(Totals totals, std::size_t backend, std::uint64_t more, const Totals& most) const;
  std::size_t next_in_proportion(const Totals& totals, const Totals& most) const;
  StorageSplit deal(const Totals& totals) const;
  void check_feasible(std::string_view policy) const;

  const StorageShape& shape_;
  std::vector<std::size_t> leanest_first_;  // backends by GPU bytes a byte, then by bandwidth
  std::vector<double> times_;               // ascending: all that whole experts of one backend can take
};

}  // namespace moelab
