// The names of all units, for what offers them to users: units.hpp reads and writes them.
#pragma once

#include <string>
#include <vector>

namespace moelab {

/// All units that parse() of units.hpp takes, dimension by dimension: times, bytes, bytes/s, FLOP, FLOP/s.
std::vector<std::string> unit_names();

}  // namespace moelab
