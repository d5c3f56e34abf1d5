#include "cli/completion_words.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/json_schema.hpp"
#include "models/config_store.hpp"
#include "models/part.hpp"
#include "policies/policy_families.hpp"
#include "traces/default_trace.hpp"

namespace moelab::cli {
namespace {

template <class Parts>
std::vector<std::string> names_of(const Parts& parts) {
  std::vector<std::string> names;
  for (const auto& part : parts) names.emplace_back(part.name);
  return names;
}

std::vector<std::string> names_of_family(std::string_view wanted) {
  for (const PolicyFamily& family : policy_families())
    if (family.name == wanted) return names_of(family.policies);
  return {};
}

std::vector<std::string> names_of_policies() {
  std::vector<std::string> names;
  for (const PolicyFamily& family : policy_families())
    for (std::string& name : names_of(family.policies)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // two families may have a 'none'
  return names;
}

std::vector<std::string> names_of_all_kinds() {
  std::vector<std::string> all;
  for (const std::string& kind : config_kinds())
    for (std::string& name : config_names(kind)) all.push_back(std::move(name));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<std::string> kind_words() {
  std::vector<std::string> words;
  for (const std::string& kind : config_kinds()) words.push_back(one_of_kind(kind));
  return words;
}

/// What arguments of these names take, in all commands alike or in one.
struct Named {
  std::string_view command, argument;  // command "": any
  std::vector<std::string> (*values)();
};

const std::array<Named, 20>& named_values() {
  static const std::array<Named, 20> all = {{
      {"", "SCENARIO", [] { return config_names("scenarios"); }},
      {"", "SWEEP", [] { return config_names("sweeps"); }},
      {"", "MODEL", [] { return config_names("models"); }},
      {"", "LAW", [] { return config_names("laws"); }},
      {"", "--law", [] { return config_names("laws"); }},
      {"", "--model", [] { return config_names("models"); }},
      {"", "--device", [] { return config_names("devices"); }},
      {"", "--system", [] { return config_names("systems"); }},
      {"", "--runtime", [] { return config_names("runtimes"); }},
      {"", "--cache", [] { return names_of_family("cache"); }},
      {"", "--gpu", [] { return names_of(gpu_parts()); }},
      {"", "--cpu", [] { return names_of(cpu_parts()); }},
      {"", "--ssd", [] { return names_of(ssd_parts()); }},
      {"schedule", "--policy", [] { return names_of_family("schedule"); }},
      {"show", "NAME", names_of_all_kinds},
      {"show", "--kind", kind_words},
      {"check-policy", "NAME", names_of_policies},
      {"check-policy", "--family", [] { return names_of(policy_families()); }},
      {"policy", "FAMILY", [] { return names_of(policy_families()); }},  // new policy
      {"schema", "KIND", [] { return names_of(kFileKinds); }},
  }};
  return all;
}

/// The members of CLI11's "{table,json}", which is how it describes CLI::IsMember.
std::vector<std::string> members(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}', begin);
  std::vector<std::string> names;
  if (end == std::string::npos) return names;
  for (std::size_t at = begin + 1; at < end;) {
    const std::size_t comma = std::min(type.find(',', at), end);
    names.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

std::vector<std::string> names_of_commands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(below->get_name());
  return names;
}

std::vector<std::string> values_of(const CLI::App& command, const CLI::Option& option,
                                   const std::string& name) {
  if (std::vector<std::string> known = members(option); !known.empty()) return known;
  for (const Named& named : named_values())
    if (named.argument == name && (named.command.empty() || named.command == command.get_name()))
      return named.values();
  if (command.get_name() == "compare" && name.starts_with("--"))  // an option for each family
    if (std::vector<std::string> policies = names_of_family(name.substr(2)); !policies.empty())
      return policies;
  if (command.get_name() == "man" && name == "COMMAND") return names_of_commands(*command.get_parent());
  if (name == "FILE" && command.get_parent() != nullptr && command.get_parent()->get_name() == "trace")
    return {kDefaultTrace};
  return {};
}

CompletedValue value_of(const CLI::App& command, const CLI::Option& option) {
  CompletedValue value;
  for (const std::string& name : option.get_lnames()) value.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) value.names.push_back("-" + name);
  value.help = option.get_description();
  value.takes_value = option.get_type_size_max() > 0;
  value.values =
      values_of(command, option, value.names.empty() ? option.get_name(true) : value.names.front());
  return value;
}

void append_commands(const CLI::App& command, const std::string& path, std::vector<CompletedCommand>& all) {
  CompletedCommand one{path, {}, {}, {}};
  const auto any = [](const CLI::App*) { return true; };
  for (const CLI::App* below : command.get_subcommands(any))
    one.commands.push_back({below->get_name(), below->get_description()});
  for (const CLI::Option* option : command.get_options())
    (option->get_positional() ? one.positionals : one.options).push_back(value_of(command, *option));
  all.push_back(std::move(one));
  for (const CLI::App* below : command.get_subcommands(any))
    append_commands(*below, path + "/" + below->get_name(), all);
}

}  // namespace

std::vector<CompletedCommand> completed_commands(const CLI::App& program) {
  std::vector<CompletedCommand> all;
  append_commands(program, "", all);
  return all;
}

}  // namespace moelab::cli
