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

const std::vector<PressurePolicyEntry>& pressure_policies() {
#define CALL(entry) entry(),
  static const std::vector<PressurePolicyEntry> table = {PRESSURE_POLICIES(CALL)};
#undef CALL
  return table;
}

const PressurePolicyEntry* find_pressure_policy(std::string_view name) {
  const auto& table = pressure_policies();
  const auto it = std::find_if(table.begin(), table.end(),
                               [name](const PressurePolicyEntry& entry) { return entry.info.name == name; });
  return it == table.end() ? nullptr : &*it;
}

}  // namespace moelab
