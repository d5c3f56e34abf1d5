#include "policies/prefetch/prefetch_entries.hpp"

namespace moelab {

const std::vector<PrefetchPolicyEntry>& prefetch_policies() {
  static const std::vector<PrefetchPolicyEntry> table = {
      no_prefetch_entry(),     layer_window_entry(),      moe_infinity_prefetch_entry(),
      gate_prediction_entry(), hybrimoe_prefetch_entry(),
  };
  return table;
}

const PrefetchPolicyEntry* find_prefetch_policy(std::string_view name) {
  for (const PrefetchPolicyEntry& entry : prefetch_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

}  // namespace moelab
