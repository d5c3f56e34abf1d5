#include "sim/scenario/system_choice.hpp"

#include <algorithm>

#include "models/input_error.hpp"

namespace moelab {

void keep_systems(Scenario& scenario, const std::vector<std::string>& names, const std::string& what) {
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const SystemConfig& s : scenario.systems) known.push_back(s.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(what + " " + name,
                       "scenario '" + scenario.name + "' has no such system" + suggestion(name, known));
  std::erase_if(scenario.systems, [&](const SystemConfig& s) {
    return std::find(names.begin(), names.end(), s.name) == names.end();
  });
}

}  // namespace moelab
