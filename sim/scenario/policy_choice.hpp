// Policies as scenarios name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/yaml_reader.hpp"
#include "policies/policy_info.hpp"
#include "policies/policy_table.hpp"
#include "sim/scenario/system_config.hpp"

namespace moelab {

/// Name and parameters of a policy: `policy: lru`, or with parameters beside it in the same map.
template <class Entry>
PolicyChoice read_policy(const YamlMap& section, const PolicyTable<Entry>& table) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.emplace_back(entry.info.name);
  const PolicyInfo& info = table[section.choice("policy", names)].info;
  PolicyChoice choice{std::string(info.name), {}};
  for (const PolicyParameter& p : info.parameters)
    if (section.has(p.name)) choice.parameters[std::string(p.name)] = section.number(p.name, {p.low, p.high});
  return choice;
}

/// A policy of a section that may be left out.
template <class Entry>
void read_policy_section(const YamlMap& map, std::string_view key, const PolicyTable<Entry>& table,
                         PolicyChoice& choice) {
  const auto section = map.optional_map(key);
  if (!section) return;
  choice = read_policy(*section, table);
  section->done();
}

/// Where a system's policies come from that are not moelab's own, each once: a library's file, or what is
/// none. The family `without`, as policy_families() calls it, is left out.
std::vector<std::string> policy_origins_of(const SystemConfig& system, std::string_view without = "");
/// Whether an origin of policies is a library's file.
bool is_library_file(std::string_view origin);

}  // namespace moelab
