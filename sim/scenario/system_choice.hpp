// Choosing among a scenario's systems.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario.hpp"

namespace moelab {

/// Leaves the named systems, in the scenario's order; all of them where no name is given. Throws InputError
/// for a name that the scenario does not have, about `what` ("--system").
void keep_systems(Scenario& scenario, const std::vector<std::string>& names, const std::string& what);

}  // namespace moelab
