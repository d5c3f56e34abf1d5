// The execution family's one table.
#include "policies/execution/execution.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define EXECUTION_POLICIES(row) \
  row(gpu_only_entry) \
  row(cpu_only_entry) \
  row(cpu_assisted_entry) \
  row(fiddler_execution_entry) \
  row(hybrimoe_execution_entry) \
  row(hybrimoe_code_entry)
// clang-format on

#define DECLARE(entry) ExecutionPolicyEntry entry();
EXECUTION_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<ExecutionPolicyEntry>& execution_policies() {
#define CALL(entry) entry(),
  static PolicyTable<ExecutionPolicyEntry> table = {EXECUTION_POLICIES(CALL)};
#undef CALL
  return table;
}

const ExecutionPolicyEntry* find_execution_policy(std::string_view name) {
  return execution_policies().find(name);
}

}  // namespace moelab
