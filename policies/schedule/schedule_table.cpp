// The schedule family's one table.
#include "policies/guard/guarded_policies.hpp"
#include "policies/schedule/schedule.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define SCHEDULE_POLICIES(row) \
  row(fifo_schedule_entry) \
  row(longest_first_entry) \
  row(cache_affinity_entry) \
  row(exhaustive_entry)
// clang-format on

#define DECLARE(entry) SchedulePolicyEntry entry();
SCHEDULE_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<SchedulePolicyEntry>& schedule_policies() {
#define CALL(entry) entry(),
  static PolicyTable<SchedulePolicyEntry> table = {SCHEDULE_POLICIES(CALL)};
#undef CALL
  return table;
}

std::unique_ptr<SchedulePolicy> make_schedule_policy(std::string_view name,
                                                     const PolicyParameters& parameters) {
  for (const SchedulePolicyEntry& entry : schedule_policies())
    if (entry.info.name == name) return make_schedule_policy(entry, parameters);
  return nullptr;
}

}  // namespace moelab
