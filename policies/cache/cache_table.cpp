// The cache family's one table.
#include <algorithm>

#include "policies/cache/cache.hpp"

namespace moelab {

// A row a policy, in the order in which users see them: the function at the end of the policy's file.
// clang-format off
#define CACHE_POLICIES(row) \
  row(no_cache_entry) \
  row(fifo_cache_entry) \
  row(lru_cache_entry) \
  row(lfu_cache_entry) \
  row(marking_cache_entry) \
  row(sieve_entry) \
  row(s3_fifo_entry) \
  row(arc_entry) \
  row(lru_k_entry) \
  row(w_tinylfu_entry) \
  row(gdsf_entry) \
  row(decode_lru_entry) \
  row(least_stale_entry) \
  row(moe_infinity_cache_entry) \
  row(zipmoe_cache_entry) \
  row(score_average_entry) \
  row(hybrimoe_cache_entry) \
  row(fixed_experts_entry) \
  row(fixed_layers_entry) \
  row(fixed_popular_entry) \
  row(belady_cache_entry)
// clang-format on

#define DECLARE(entry) CachePolicyEntry entry();
CACHE_POLICIES(DECLARE)
#undef DECLARE

PolicyTable<CachePolicyEntry>& cache_policies() {
#define CALL(entry) entry(),
  static PolicyTable<CachePolicyEntry> table = {CACHE_POLICIES(CALL)};
#undef CALL
  return table;
}

const CachePolicyEntry* find_cache_policy(std::string_view name) {
  return cache_policies().find(name);
}

}  // namespace moelab
