// A library of policies: policies that stand outside moelab, compiled into a shared library that
// `--policy-library`, a scenario's `policy_libraries` or MOELAB_POLICY_PATH names. Such a library is one file
// or several that say, once,
//
//   MOELAB_POLICIES(mine_entry(), another_entry())
//
// with entries of any families. From then on its policies are chosen by name, as moelab's own are. They see
// no more of moelab than the headers that are installed with this one; whatever they answer is checked
// (policies/guard).
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "policies/batching/batching.hpp"
#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/placement/placement.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/pressure/pressure.hpp"
#include "policies/residency/residency.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "policies/storage/storage.hpp"

namespace moelab {

/// Changes whenever a declaration in the installed headers does: a library that was compiled with another one
/// is refused. tests/policy_interface.sh fails where the headers changed and this did not.
inline constexpr std::uint32_t kPolicyInterface = 6;

/// One number for how a compiler and its standard library lay out what is passed between moelab and a
/// library: of two that differ in it neither can read what the other wrote.
template <class... Passed>
constexpr std::uint64_t layout_of() {
  std::uint64_t layout = 1469598103934665603ULL;  // FNV-1a
  const auto add = [&layout](std::uint64_t value) { layout = (layout ^ value) * 1099511628211ULL; };
  (add(sizeof(Passed)), ...);
  (add(alignof(Passed)), ...);
  return layout;
}
inline constexpr std::uint64_t kPolicyLayout =
    layout_of<std::string, PolicyParameter, PolicyInfo, PolicyParameters, BatchRequest, BatchingShape,
              StepShare, BlockMoves, KvShape, BatchStep, KvUse, BatchingPolicyEntry, ExpertUse, CacheStep,
              CacheShape, CachePolicyEntry, MissingExpert, ExecutionCosts, ExecutionPlan,
              ExecutionPolicyEntry, PlacementServer, PlacementShape, ActivationCounts, Placement,
              PlacementPolicyEntry, PlanInput, Plan, PlanningPolicyEntry, PrefetchShape, GateAhead, Fetch,
              PrefetchPolicyEntry, PressureTerms, PressurePolicyEntry, ResidencyState, ResidencyPolicyEntry,
              TokenGate, TokenRouting, StepRouting, RoutingPolicyEntry, LayerExpert, ChunkRead, LayerInstance,
              LayerOrder, SchedulePolicyEntry, StorageBackend, StorageShape, StorageSplit,
              StoragePolicyEntry>();

/// What a library brings: entries of any families.
struct PolicyLibrary {
  std::tuple<
      std::vector<BatchingPolicyEntry>, std::vector<CachePolicyEntry>, std::vector<ExecutionPolicyEntry>,
      std::vector<PlacementPolicyEntry>, std::vector<PlanningPolicyEntry>, std::vector<PrefetchPolicyEntry>,
      std::vector<PressurePolicyEntry>, std::vector<ResidencyPolicyEntry>, std::vector<RoutingPolicyEntry>,
      std::vector<SchedulePolicyEntry>, std::vector<StoragePolicyEntry>>
      families;

  template <class Entry>
  std::vector<Entry>& of_family() {
    return std::get<std::vector<Entry>>(families);
  }
  template <class... Entries>
  void add(Entries... entries) {
    (of_family<Entries>().push_back(std::move(entries)), ...);
  }
};

}  // namespace moelab

/// Once in a library, outside every namespace.
#define MOELAB_POLICIES(...)                                                            \
  extern "C" {                                                                          \
  [[gnu::visibility("default")]] std::uint32_t moelab_policy_interface() {              \
    return moelab::kPolicyInterface;                                                    \
  }                                                                                     \
  [[gnu::visibility("default")]] std::uint64_t moelab_policy_layout() {                 \
    return moelab::kPolicyLayout;                                                       \
  }                                                                                     \
  [[gnu::visibility("default")]] void moelab_policies(moelab::PolicyLibrary& library) { \
    library.add(__VA_ARGS__);                                                           \
  }                                                                                     \
  }
