// The families of policies, for commands that go over all of them.
#pragma once

#include <string>
#include <vector>

#include "policies/policy_info.hpp"

namespace moelab::cli {

struct PolicyFamily {
  std::string name;  // "cache"
  std::vector<PolicyInfo> policies;
};

/// As their tables have them.
std::vector<PolicyFamily> policy_families();

}  // namespace moelab::cli
