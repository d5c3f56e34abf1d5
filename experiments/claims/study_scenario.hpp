// Shipped scenarios as the studies run them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario.hpp"

namespace moelab {

/// Without the runtime that the scenario states for all rivals: studies say themselves what software costs,
/// or take what the systems' own files say.
inline Scenario study_scenario(std::string_view name,
                               std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("runtime", "none");
  return load_scenario(name, settings);
}

}  // namespace moelab
