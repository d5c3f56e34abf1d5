// What the readers of every kind of file ask for while they read the program's own.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>

#include "models/yaml_asked.hpp"

namespace moelab::cli {

/// By path: "scenario.budget", "system.cache.policy". What stands in a scenario in the place of a name is
/// noted under what it is.
struct KeyReadings {
  std::map<std::string, std::set<AskedKey>> forms;  // whose own paths are empty
  std::set<std::string> unasked;                    // as in AskedKeys
  std::map<std::string, std::set<std::string>> always;
};

/// A change to a shipped scenario, as --set makes it, by which readers ask for what no shipped file has.
struct KeyProbe {
  const char *scenario, *path, *value;
};
std::span<const KeyProbe> key_probes();

/// Reads everything that is in the program.
KeyReadings key_readings();

}  // namespace moelab::cli
