// Whether a scenario has what its systems ask for. Problems are reported where the scenario names the system.
#pragma once

#include "models/yaml_reader.hpp"
#include "sim/scenario.hpp"

namespace moelab {

/// Of its device, and of what the workload and the number of GPUs ask of the system.
void check_on_device(const SystemConfig& system, const Scenario& scenario, const YamlNode& where);
/// Of its model.
void check_on_model(const SystemConfig& system, const Scenario& scenario, const YamlNode& where);

}  // namespace moelab
