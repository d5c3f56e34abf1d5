// Reads a policy's parameter and refuses what its own row of the table does not allow.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <string>

#include "models/input_error.hpp"
#include "policies/policy_info.hpp"

namespace moelab {

/// The value of parameter `name` of the policy `info` describes, in the unit of its row, or the row's
/// default. Throws InputError when it is not a number or outside the row's range.
inline double checked_parameter(const PolicyInfo& info, const PolicyParameters& values,
                                std::string_view name) {
  const double value = parameter(info, values, name);
  for (const PolicyParameter& p : info.parameters) {
    if (p.name != name) continue;
    if (value >= p.low && value <= p.high) return value;
    throw InputError("", "policy '" + std::string(info.name) + "': parameter '" + std::string(name) +
                             "' is " + std::to_string(value) + ", expected " + std::to_string(p.low) +
                             " to " + std::to_string(p.high));
  }
  assert(false && "a parameter that the policy's row does not have");
  return value;
}

/// The same for a count or a 0/1 switch: throws InputError when the value is not whole as well.
inline std::uint32_t checked_count(const PolicyInfo& info, const PolicyParameters& values,
                                   std::string_view name) {
  const double value = checked_parameter(info, values, name);
  if (value == std::floor(value)) return static_cast<std::uint32_t>(value);
  throw InputError("", "policy '" + std::string(info.name) + "': parameter '" + std::string(name) + "' is " +
                           std::to_string(value) + ", expected a whole number");
}

}  // namespace moelab
