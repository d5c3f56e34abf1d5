// Policies by the names of their families.
#include "policies/check/policy_check.hpp"
#include "models/input_error.hpp"
#include "policies/policy_families.hpp"

namespace moelab {

PolicyCheck check_policy(std::string_view family, std::string_view policy, const CheckOptions& options) {
  PolicyCheck check;
  std::vector<std::string> families, names;
  for_each_policy_family([&](std::string_view name, const auto& table) {
    families.emplace_back(name);
    if (name != family) return;
    for (const auto& entry : table) {
      names.emplace_back(entry.info.name);
      if (entry.info.name == policy) check = check_policy(entry, options);
    }
  });
  if (names.empty())
    throw InputError("", "no family '" + std::string(family) + "'" + suggestion(family, families));
  if (check.policy.empty())
    throw InputError("", "no policy '" + std::string(policy) + "' of family " + std::string(family) +
                             suggestion(policy, names));
  return check;
}

}  // namespace moelab
