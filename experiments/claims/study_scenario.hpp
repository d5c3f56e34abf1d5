// Shipped scenarios as the studies run them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario.hpp"

namespace moelab {

/// Without the runtime that the scenario states for all rivals: studies say themselves what software costs,
/// or take what the systems' own files say. Those on zipmoe-orin draw their routing from the generator with
/// gpt-oss-20b's parameters, not from the model's own law: their READMEs' tables are of that.
inline Scenario study_scenario(std::string_view name,
                               std::vector<std::pair<std::string, std::string>> settings = {}) {
  settings.emplace_back("runtime", "none");
  if (name == "zipmoe-orin") settings.insert(settings.begin(), {"workload.skew", "1.4"});
  return load_scenario(name, settings);
}

}  // namespace moelab
