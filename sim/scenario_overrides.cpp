#include "sim/scenario_overrides.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "policies/cache/cache.hpp"
#include "policies/execution/execution.hpp"
#include "policies/planning/planning.hpp"
#include "policies/prefetch/prefetch.hpp"
#include "policies/routing/routing.hpp"
#include "policies/schedule/schedule.hpp"
#include "sim/scenario.hpp"

namespace moelab {
namespace {

/// Keys that only systems with compressed weights have.
constexpr std::array<std::string_view, 5> kOnlyCompressed = {"codec", "decoder", "shards", "threads",
                                                             "exponent_reads"};

/// A key of a system under which a policy is named, with its parameters beside it.
struct Family {
  std::string_view section;
  PolicyChoice SystemConfig::*choice;
  std::vector<PolicyInfo> policies;

  /// nullptr when there is no such policy.
  const PolicyInfo* find(std::string_view name) const {
    const auto it = std::find_if(policies.begin(), policies.end(),
                                 [name](const PolicyInfo& info) { return info.name == name; });
    return it == policies.end() ? nullptr : &*it;
  }
  bool any_has(std::string_view parameter) const;
};

bool has_parameter(const PolicyInfo& info, std::string_view name) {
  return std::any_of(info.parameters.begin(), info.parameters.end(),
                     [name](const PolicyParameter& p) { return p.name == name; });
}

bool Family::any_has(std::string_view parameter) const {
  return std::any_of(policies.begin(), policies.end(),
                     [parameter](const PolicyInfo& info) { return has_parameter(info, parameter); });
}

template <class Entry>
Family family(std::string_view section, PolicyChoice SystemConfig::*choice, const PolicyTable<Entry>& table) {
  Family f{section, choice, {}};
  for (const Entry& entry : table) f.policies.push_back(entry.info);
  return f;
}

/// With those of libraries that are loaded by now.
std::vector<Family> families() {
  return {family("schedule", &SystemConfig::schedule, schedule_policies()),
          family("cache", &SystemConfig::cache, cache_policies()),
          family("planning", &SystemConfig::planning, planning_policies()),
          family("prefetch", &SystemConfig::prefetch, prefetch_policies()),
          family("routing", &SystemConfig::routing, routing_policies()),
          family("execution", &SystemConfig::execution, execution_policies())};
}

/// The text under a key of a map, or "" where there is none.
std::string text_at(const YamlMap& map, std::string_view key) {
  return map.has(key) && map.node(key).is_scalar() ? map.text(key) : "";
}

/// The policy of a family that a system will have; "" where that is not to be told.
std::string policy_of(const Family& f, const YamlMap& system, const YamlMap& changes) {
  if (changes.has("policy")) return text_at(changes, "policy");
  if (!system.has(f.section)) return (SystemConfig().*f.choice).name;
  return system.node(f.section).is_map() ? text_at(system.map(f.section), "policy") : "";
}

/// Whether a system has no use for `buffer` or `buffer_layers`: it prefetches nothing, or has the other.
bool has_no_room_for(std::string_view key, const PolicyInfo& prefetch, const YamlMap& system) {
  if (key != "buffer" && key != "buffer_layers") return false;
  if (prefetch.name == "none") return true;
  if (!system.has("prefetch") || !system.node("prefetch").is_map()) return false;  // the overrides bring all
  return system.map("prefetch").has(key == "buffer" ? "buffer_layers" : "buffer");
}

/// Dotted paths of what this system has no use for.
std::vector<std::string> passed_over(const YamlMap& overrides, const YamlMap& system) {
  std::vector<std::string> paths;
  if (!overrides.has("weights") && text_at(system, "weights") == "whole")
    paths.assign(kOnlyCompressed.begin(), kOnlyCompressed.end());
  for (const Family& f : families()) {
    if (!overrides.has(f.section) || !overrides.node(f.section).is_map()) continue;
    const YamlMap changes = overrides.map(f.section);
    const PolicyInfo* policy = f.find(policy_of(f, system, changes));
    if (policy == nullptr) continue;  // reading the system says what is wrong
    for (const std::string& key : changes.keys())
      if ((f.any_has(key) && !has_parameter(*policy, key)) ||
          (f.section == "prefetch" && has_no_room_for(key, *policy, system)))
        paths.push_back(std::string(f.section) + "." + key);
  }
  return paths;
}

void apply(const YamlNode& overrides, const std::string& prefix, std::span<const std::string> passed,
           YamlDocument& document) {
  const YamlMap map = overrides.map("overrides");
  for (const std::string& key : map.keys()) {
    const YamlNode value = map.node(key);
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (std::find(passed.begin(), passed.end(), path) != passed.end()) continue;
    if (value.is_map())
      apply(value, path, passed, document);
    else if (value.is_list())
      value.fail("overrides change single values; '" + path + "' is a list");
    else
      document.set(path, value.text(path));
  }
}

}  // namespace

void override_config(const YamlNode& overrides, YamlDocument& document) {
  apply(overrides, "", {}, document);
}

void override_system(const YamlNode& overrides, const ConfigText& config, YamlDocument& document) {
  if (!overrides.is_map()) return override_config(overrides, document);
  Problems ignored;  // reading the system for good finds them again
  const YamlDocument system = YamlDocument::from_text(config.name, config.text, ignored);
  apply(overrides, "", passed_over(overrides.map("overrides"), system.root()), document);
}

namespace {

constexpr std::array<std::string_view, 6> kDeviceSections = {"codecs", "cpu",        "gpu",
                                                             "memory", "page_cache", "ssd"};
/// Keys of a scenario that people look for in its systems.
constexpr std::array<std::string_view, 5> kOnlyScenario = {"budget", "data_parallel", "expert_parallel",
                                                           "tensor_parallel", "workload"};
constexpr std::array<std::string_view, 7> kMachineKeys = {"cpu", "gpu",     "gpus", "memory",
                                                          "ram", "sockets", "ssd"};

template <std::size_t n>
bool is_among(const std::array<std::string_view, n>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Of a path in a device's profile ("ssd.read.rate", "device.ssd.read.rate"): the one that changes it from a
/// scenario of that profile, or the part where the scenario's machine is put together from parts.
std::string device_path_in_scenario(const YamlMap& scenario, std::string path) {
  for (const std::string_view prefix : {"overrides.", "device."})
    if (path.starts_with(prefix)) path.erase(0, prefix.size());
  const std::size_t dot = path.find('.');
  const std::string section = path.substr(0, dot);
  if (scenario.has("machine") && !scenario.has("device"))
    return path.starts_with("memory.total")  ? "machine.ram"
           : is_among(kMachineKeys, section) ? "machine." + section
                                             : "";
  if (!scenario.has("device") || !scenario.node("device").is_scalar()) return "";
  if (dot != path.npos) return is_among(kDeviceSections, section) ? "overrides.device." + path : "";
  return path == "cpu" || path == "gpu" ? "machine." + path : "";
}

}  // namespace

std::string path_in_scenario(const YamlNode& scenario, const std::string& path) {
  const std::size_t dot = path.find('.');
  const std::string first = path.substr(0, dot);
  for (const std::string_view prefix : {"overrides.system.", "system."})
    if (path.starts_with(prefix)) {
      std::string rest = path.substr(prefix.size());
      if (is_among(kOnlyScenario, std::string_view(rest).substr(0, rest.find('.')))) return rest;
    }
  const std::vector<Family> policies = families();
  if (std::find(kOnlyCompressed.begin(), kOnlyCompressed.end(), first) != kOnlyCompressed.end() ||
      std::any_of(policies.begin(), policies.end(), [&](const Family& f) { return f.section == first; }))
    return "overrides.system." + path;
  if (dot != path.npos && first == "scenario") return path.substr(dot + 1);
  if (dot != path.npos && first == "system") return "overrides." + path;
  if (!scenario.is_map()) return "";
  const YamlMap root = scenario.map("the scenario");
  const bool other_file = first == "device" || first == "model" || first == "cluster";
  if (dot != path.npos && other_file && root.has(first) && root.node(first).is_scalar())
    return "overrides." + path;
  return path.starts_with("overrides.device") ? "" : device_path_in_scenario(root, path);
}

void check_overrides_reach(const YamlMap& overrides, const std::vector<SystemConfig>& systems) {
  const bool any_compressed =
      std::any_of(systems.begin(), systems.end(), [](const SystemConfig& s) { return s.compressed; });
  for (const std::string_view key : kOnlyCompressed)
    if (!any_compressed && overrides.has(key))
      overrides.fail(key, "'" + std::string(key) + "' has no effect: no system has compressed weights");
  for (const Family& f : families()) {
    if (!overrides.has(f.section) || !overrides.node(f.section).is_map()) continue;
    const YamlMap changes = overrides.map(f.section);
    for (const std::string& key : changes.keys()) {
      const bool reaches = std::any_of(systems.begin(), systems.end(), [&](const SystemConfig& s) {
        const PolicyInfo* policy = f.find((s.*f.choice).name);
        return policy != nullptr && has_parameter(*policy, key);
      });
      if (f.any_has(key) && !reaches)
        changes.fail(key, "'" + std::string(f.section) + "." + key + "' has no effect: no system's " +
                              std::string(f.section) +
                              " policy has it; to run these systems without the scenario's changes: --set "
                              "overrides.system={}");
    }
  }
}

}  // namespace moelab
