// Policies by the names of their families.
#include "policies/check/policy_check.hpp"

#include "models/input_error.hpp"

namespace moelab {
namespace {

/// Calls `work(name, table)` for the table of each family.
template <class Work>
void for_each_family(const Work& work) {
  work("cache", cache_policies());
  work("prefetch", prefetch_policies());
  work("schedule", schedule_policies());
  work("routing", routing_policies());
  work("execution", execution_policies());
  work("batching", batching_policies());
  work("storage", storage_policies());
  work("residency", residency_policies());
  work("placement", placement_policies());
  work("planning", planning_policies());
  work("pressure", pressure_policies());
}

}  // namespace

const std::vector<std::string>& policy_families() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for_each_family([&](const char* name, const auto&) { all.emplace_back(name); });
    return all;
  }();
  return names;
}

std::vector<std::string> policies_of(std::string_view family) {
  bool known = false;
  std::vector<std::string> names;
  for_each_family([&](std::string_view name, const auto& table) {
    if (name != family) return;
    known = true;
    for (const auto& entry : table) names.emplace_back(entry.info.name);
  });
  if (!known)
    throw InputError("", "no family '" + std::string(family) + "'" + suggestion(family, policy_families()));
  return names;
}

PolicyCheck check_policy(std::string_view family, std::string_view policy, const CheckOptions& options) {
  const std::vector<std::string> known = policies_of(family);
  PolicyCheck check;
  for_each_family([&](std::string_view name, const auto& table) {
    if (name != family) return;
    for (const auto& entry : table)
      if (entry.info.name == policy) check = check_policy(entry, options);
  });
  if (check.policy.empty())
    throw InputError("", "no policy '" + std::string(policy) + "' of family " + std::string(family) +
                             suggestion(policy, known));
  return check;
}

}  // namespace moelab
