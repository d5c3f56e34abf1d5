// The values of a sweep's axis.
#pragma once

#include <string>
#include <vector>

#include "models/yaml_reader.hpp"

namespace moelab {

/// One value: as YAML text that a scenario's key can be set to, and as a person reads it.
struct AxisValue {
  std::string yaml, shown;
};

/// Reads a list, linspace, logspace or random (sweep_file.hpp); what is wrong is reported at the node.
std::vector<AxisValue> read_axis_values(const YamlNode& node, const std::string& axis);
AxisValue axis_value(const YamlNode& node);

}  // namespace moelab
