#include "policies/prefetch/prefetch.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define PREFETCH_POLICIES(row) \
  row(no_prefetch_entry) \
  row(layer_window_entry) \
  row(moe_infinity_prefetch_entry) \
  row(gate_prediction_entry) \
  row(hybrimoe_prefetch_entry)
// clang-format on

#define DECLARE(entry) PrefetchPolicyEntry entry();
PREFETCH_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<PrefetchPolicyEntry>& prefetch_policies() {
#define CALL(entry) entry(),
  static PolicyTable<PrefetchPolicyEntry> table = {PREFETCH_POLICIES(CALL)};
#undef CALL
  return table;
}

const PrefetchPolicyEntry* find_prefetch_policy(std::string_view name) {
  return prefetch_policies().find(name);
}

}  // namespace moelab
