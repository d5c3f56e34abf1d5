#include "sim/scenario/changed_systems.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "models/input_error.hpp"
#include "models/json.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

using Json = nlohmann::ordered_json;

bool is_of_systems(const std::string& path) {
  return path == "overrides" || path == "overrides.system" || path.starts_with("overrides.system.") ||
         path.starts_with("systems.");
}

/// Systems as a scenario's document has them, by name.
std::map<std::string, Json> systems_of(const Scenario& scenario) {
  std::map<std::string, Json> systems;
  const Json document = Json::parse(scenario.document);
  for (const Json& system : document.at("systems"))
    if (system.is_object()) systems.emplace(system.value("name", ""), system);
  return systems;
}

}  // namespace

std::vector<std::string> changed_systems(const Scenario& scenario, const std::string& name_or_path,
                                         const std::vector<std::string>& only) {
  std::vector<std::pair<std::string, std::string>> others;
  std::copy_if(scenario.settings.begin(), scenario.settings.end(), std::back_inserter(others),
               [](const auto& setting) { return !is_of_systems(setting.first); });
  if (others.size() == scenario.settings.size()) return {};
  std::vector<std::string> changed;
  try {
    const std::map<std::string, Json> before = systems_of(load_scenario(name_or_path, others, only));
    for (const auto& [name, system] : systems_of(scenario))
      if (const auto found = before.find(name); found != before.end() && found->second != system)
        changed.push_back(name);
  } catch (const InputError&) {
    for (const SystemConfig& system : scenario.systems) changed.push_back(system.name);
  }
  return changed;
}

}  // namespace moelab
