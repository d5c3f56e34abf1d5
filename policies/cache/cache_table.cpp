// The cache family's one table.
#include <algorithm>

#include "policies/cache/cache_entries.hpp"

namespace moelab {

const std::vector<CachePolicyEntry>& cache_policies() {
  static const std::vector<CachePolicyEntry> table = {
      no_cache_entry(),       fifo_cache_entry(),         lru_cache_entry(),    lfu_cache_entry(),
      marking_cache_entry(),  moe_infinity_cache_entry(), zipmoe_cache_entry(), score_average_entry(),
      hybrimoe_cache_entry(), fixed_experts_entry(),      fixed_layers_entry(), fixed_popular_entry(),
      belady_cache_entry(),
  };
  return table;
}

const CachePolicyEntry* find_cache_policy(std::string_view name) {
  const auto& table = cache_policies();
  const auto it = std::find_if(table.begin(), table.end(),
                               [name](const CachePolicyEntry& entry) { return entry.info.name == name; });
  return it == table.end() ? nullptr : &*it;
}

}  // namespace moelab
