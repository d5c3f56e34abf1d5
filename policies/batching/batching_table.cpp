// The batching family's one table.
#include "policies/batching/batching.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define BATCHING_POLICIES(row) \
  row(continuous_batching_entry) \
  row(static_batching_entry) \
  row(vllm_v1_batching_entry) \
  row(sglang_batching_entry)
// clang-format on

#define DECLARE(entry) BatchingPolicyEntry entry();
BATCHING_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<BatchingPolicyEntry>& batching_policies() {
#define CALL(entry) entry(),
  static PolicyTable<BatchingPolicyEntry> table = {BATCHING_POLICIES(CALL)};
#undef CALL
  return table;
}

const BatchingPolicyEntry* find_batching_policy(std::string_view name) {
  return batching_policies().find(name);
}

}  // namespace moelab
