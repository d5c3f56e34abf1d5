// The execution family's one table.
#include <algorithm>
#include <numeric>

#include "policies/execution/execution_entries.hpp"

namespace moelab {

const std::vector<ExecutionPolicyEntry>& execution_policies() {
  static const std::vector<ExecutionPolicyEntry> table = {gpu_only_entry(), cpu_only_entry(),
                                                          cpu_assisted_entry(), fiddler_execution_entry(),
                                                          hybrimoe_execution_entry()};
  return table;
}

const ExecutionPolicyEntry* find_execution_policy(std::string_view name) {
  for (const ExecutionPolicyEntry& entry : execution_policies())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

void sort_by_score(std::span<const MissingExpert> missing, std::vector<std::uint32_t>& order) {
  order.resize(missing.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [missing](std::uint32_t a, std::uint32_t b) {
    return missing[a].score != missing[b].score ? missing[a].score > missing[b].score : a < b;
  });
}

}  // namespace moelab
