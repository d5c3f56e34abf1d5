// The storage family's one table.
#include "policies/storage/storage.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define STORAGE_POLICIES(row) \
  row(fixed_split_entry) \
  row(whole_layer_entry) \
  row(bandwidth_proportional_entry) \
  row(tri_state_entry)
// clang-format on

#define DECLARE(entry) StoragePolicyEntry entry();
STORAGE_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<StoragePolicyEntry>& storage_policies() {
#define CALL(entry) entry(),
  static PolicyTable<StoragePolicyEntry> table = {STORAGE_POLICIES(CALL)};
#undef CALL
  return table;
}

const StoragePolicyEntry* find_storage_policy(std::string_view name) {
  return storage_policies().find(name);
}

}  // namespace moelab
