// Which systems of a scenario are no longer what their files say.
#pragma once

#include <string>
#include <vector>

namespace moelab {

struct Scenario;

/// Names of the systems that the scenario's settings change, such as `overrides.system.cache.policy=lru` or
/// `systems.0.threads=2`: they carry the name of another composition. `name_or_path` and `only` are what the
/// scenario was read from (load_scenario()). Where it cannot be read without these settings: all.
std::vector<std::string> changed_systems(const Scenario& scenario, const std::string& name_or_path,
                                         const std::vector<std::string>& only);

}  // namespace moelab
