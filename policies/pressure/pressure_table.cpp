// The pressure family's one table.
#include <algorithm>

#include "policies/pressure/pressure.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define PRESSURE_POLICIES(row) \
  row(experts_yield_entry) \
  row(requests_yield_entry) \
  row(cheapest_yields_entry)
// clang-format on

#define DECLARE(entry) PressurePolicyEntry entry();
PRESSURE_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<PressurePolicyEntry>& pressure_policies() {
#define CALL(entry) entry(),
  static PolicyTable<PressurePolicyEntry> table = {PRESSURE_POLICIES(CALL)};
#undef CALL
  return table;
}

const PressurePolicyEntry* find_pressure_policy(std::string_view name) {
  return pressure_policies().find(name);
}

}  // namespace moelab
