// Changes that a scenario makes to the files it names: `overrides: {system: {cache: {policy: lru}}}`.
#pragma once

#include <string>
#include <vector>

#include "models/config_store.hpp"
#include "models/yaml_reader.hpp"

namespace moelab {

struct SystemConfig;

/// How the parts of a scenario's machine are set, to end a message with.
inline constexpr const char* kPartsExample =
    ", as in machine.ssd=pcie4-x4 or machine.ram=\"64 GiB\" (`moelab parts`)";

/// Applies a map of overrides to a document, leaf by leaf: {cache: {policy: lru}} sets cache.policy.
void override_config(const YamlNode& overrides, YamlDocument& document);

/// The same for a system, which one override serves together with others: passes over what this one has no
/// use for. That is what only compressed weights have, where they are whole, and the parameters of policies
/// that it does not have (routing.alpha where the routing is the model's). `config` is the document's text.
void override_system(const YamlNode& overrides, const ConfigText& config, YamlDocument& document);

/// Of a setting's dotted path that is a key of another kind of file, as `moelab keys` lists it: the path that
/// changes it from a scenario. "system.threads", and what only systems have, "threads": both
/// "overrides.system.threads"; "device.ssd.readers" and "ssd.readers" where the scenario names a device:
/// "overrides.device.ssd.readers", and where its machine is put together from parts: "machine.ssd". "": the
/// path may be the scenario's own, or leads nowhere.
std::string path_in_scenario(const YamlNode& scenario, const std::string& path);

/// An override that all systems pass over is a mistake: adds a problem. `overrides`: those of systems.
void check_overrides_reach(const YamlMap& overrides, const std::vector<SystemConfig>& systems);

}  // namespace moelab
