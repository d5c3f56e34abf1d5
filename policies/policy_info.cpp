#include "policies/policy_info.hpp"

namespace moelab {

double parameter(const PolicyInfo& info, const PolicyParameters& values, std::string_view name) {
  if (auto it = values.find(name); it != values.end()) return it->second;
  for (const PolicyParameter& p : info.parameters)
    if (p.name == name) return p.default_value;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace moelab
