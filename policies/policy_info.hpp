// What a policy says of itself: the one table of each family registers its policies with this, and `moelab
// policies`, validation of YAML and help texts all come from there.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moelab {

/// A numeric parameter of a policy.
struct PolicyParameter {
  std::string_view name;
  std::string_view unit;  // "" for a plain number
  double default_value = 0;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string_view help;
};

struct PolicyInfo {
  std::string_view name;
  std::string_view help;    // one line
  std::string_view source;  // paper or code that defines it
  std::vector<PolicyParameter> parameters = {};
  std::string_view library = {};  // the file of the library that brought it; empty for those of moelab
};

/// Values by parameter name; absent means the default.
using PolicyParameters = std::map<std::string, double, std::less<>>;

/// What `values` says of the parameter, else its default; NaN where the policy has none of that name.
double parameter(const PolicyInfo& info, const PolicyParameters& values, std::string_view name);

}  // namespace moelab
