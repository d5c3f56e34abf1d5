// moelab show: a configuration file as it is, or with everything that it names filled in.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/layer_table.hpp"
#include "cli/yaml_of_json.hpp"
#include "models/config_store.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"
#include "models/text_file.hpp"
#include "models/yaml_reader.hpp"
#include "sim/scenario.hpp"

namespace moelab::cli {
namespace {

struct ShowArguments {
  std::string name, kind, format = "yaml";
  std::vector<std::string> settings;
  bool resolved = false;
};

struct ShownConfig {
  std::string kind;  // "scenarios"; "": of none that is known
  ConfigText config;
};

/// What "scenario" or "scenarios" means.
std::string kind_named(const std::string& word) {
  std::vector<std::string> known;
  for (const std::string& kind : config_kinds()) {
    if (word == kind || word == one_of_kind(kind)) return kind;
    known.push_back(one_of_kind(kind));
  }
  throw InputError("--kind " + word, "no such kind" + suggestion(word, known));
}

/// By the keys that only files of a kind have.
std::string kind_of_text(const ConfigText& config) {
  struct Mark {
    const char *kind, *first, *second;
  };
  static constexpr std::array<Mark, 10> kMarks = {{{"scenarios", "systems", "model"},
                                                   {"sweeps", "scenario", "name"},
                                                   {"devices", "ssd", "page_cache"},
                                                   {"clusters", "servers", "network"},
                                                   {"runtimes", "constants", "sources"},
                                                   {"laws", "decode_tokens", "layers"},
                                                   {"quality", "alphas", "models"},
                                                   {"figures", "format", "sources"},
                                                   {"models", "hidden", "layers"},
                                                   {"systems", "weights", "name"}}};
  Problems problems;
  const YamlNode node = YamlDocument::from_text(config.name, config.text, problems).node();
  if (!problems.empty() || !node.is_map()) return "";
  const YamlMap map = node.map("");
  for (const Mark& mark : kMarks)
    if (map.has(mark.first) && map.has(mark.second)) return mark.kind;
  return "";
}

std::vector<std::string> kinds_with(const std::string& name) {
  std::vector<std::string> kinds;
  for (const std::string& kind : config_kinds()) {
    const std::vector<std::string> names = config_names(kind);
    if (std::find(names.begin(), names.end(), name) != names.end()) kinds.push_back(kind);
  }
  return kinds;
}

std::string listed(const std::vector<std::string>& kinds) {
  std::string text;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    text += (i == 0 ? "a " : i + 1 == kinds.size() ? " and a " : ", a ") + one_of_kind(kinds[i]);
  return text;
}

ShownConfig find_by_path(const std::string& path, const std::string& kind) {
  std::error_code none;
  if (std::filesystem::exists(path, none)) {
    const ConfigText config{path, read_text_file(path)};
    return {kind.empty() ? kind_of_text(config) : kind, config};
  }
  for (const std::string& one : config_kinds())
    if (kind.empty() ? path.find(one + "/") != std::string::npos : one == kind)
      return {one, find_config(one, path)};
  throw InputError(path, "there is no such file; without .yaml it is the name of a configuration");
}

ShownConfig find_by_name(const std::string& name, const std::string& kind) {
  if (!kind.empty()) return {kind, find_config(kind, name)};
  const std::vector<std::string> kinds = kinds_with(name);
  if (kinds.size() > 1) {
    std::string options;
    for (const std::string& one : kinds)
      options += (options.empty() ? "--kind " : " or --kind ") + one_of_kind(one);
    throw InputError("", "'" + name + "' is " + listed(kinds) + "; expected " + options + " with it");
  }
  if (kinds.size() == 1) return {kinds[0], find_config(kinds[0], name)};
  std::vector<std::string> known;
  for (const std::string& one : config_kinds())
    for (std::string& has : config_names(one)) known.push_back(std::move(has));
  throw InputError("",
                   "no configuration is named '" + name + "'" + suggestion(name, known) +
                       "; moelab scenarios, sweeps, systems, models, devices, clusters, runtimes and laws "
                       "list them; a file of your own is named by its path, ending in .yaml");
}

std::string heading(const ShownConfig& shown, const std::string& how) {
  const bool embedded = shown.config.name.starts_with("configs/");
  return "# " + (shown.kind.empty() ? "A file" : "A " + one_of_kind(shown.kind)) + ", " + how +
         one_line(shown.config.name) + (embedded ? ", as built into this program" : "") + "\n";
}

Scenario resolved_scenario(const ShownConfig& shown, const std::vector<std::string>& settings) {
  if (shown.kind != "scenarios")
    throw InputError("--resolved", "'" + shown.config.name + "' is " +
                                       (shown.kind.empty() ? "no scenario" : "a " + one_of_kind(shown.kind)) +
                                       ": only scenarios name other files that can be filled in");
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& text : settings) all.push_back(split_setting(text));
  return scenario_of_document(shown.config.name, shown.config.text, all);
}

void show(const ShowArguments& a) {
  const std::string kind = a.kind.empty() ? "" : kind_named(a.kind);
  const ShownConfig shown = is_config_path(a.name) ? find_by_path(a.name, kind) : find_by_name(a.name, kind);
  if (!a.settings.empty() && !a.resolved)
    throw InputError("--set", "changes what a run would read; expected --resolved with it");
  if (!a.resolved && a.format == "yaml") {
    std::cout << heading(shown, "from ") << shown.config.text;
    return;
  }
  nlohmann::ordered_json document;
  if (a.resolved) {
    document = nlohmann::ordered_json::parse(resolved_scenario(shown, a.settings).document);
  } else {
    Problems problems;
    const YamlDocument yaml = YamlDocument::from_text(shown.config.name, shown.config.text, problems);
    problems.throw_if_any();
    document = nlohmann::ordered_json::parse(yaml.node().json());
  }
  if (a.format == "json")
    std::cout << json_text(document);
  else
    std::cout << heading(shown, "with all that it names filled in, from ") << yaml_of_json(document);
}

}  // namespace

void add_show(CLI::App& program) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App* command = program.add_subcommand(
      "show", "Print a configuration: a scenario, system, device, model or another file of the program");
  command->add_option("NAME", arguments->name, "Name of a configuration of any kind, or a file's path")
      ->required();
  command->add_option("--kind", arguments->kind,
                      "What it is, where several have the name: scenario, system, device, model, ...");
  command->add_flag(
      "--resolved", arguments->resolved,
      "Of a scenario: with model, device or cluster, and systems in the place of their names, and "
      "overrides applied; itself a scenario that can be run");
  command
      ->add_option("--set", arguments->settings, "With --resolved: change a value first, as in 'moelab run'")
      ->take_all();
  command
      ->add_option("--format", arguments->format,
                   "How to print: yaml (with its comments) or json (for programs)")
      ->check(CLI::IsMember({"yaml", "json"}))
      ->default_str("yaml");
  add_example(
      *command,
      "moelab show zipmoe-orin\n  moelab show jetson-agx-orin-64gb\n  moelab show zipmoe-orin --resolved");
  command->callback([arguments] { show(*arguments); });
}

}  // namespace moelab::cli
