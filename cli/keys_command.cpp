// moelab keys: what files may say.
#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/keys/key_table.hpp"
#include "cli/wrapped_text.hpp"
#include "models/input_error.hpp"
#include "models/json.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// "systems.0.cache" and "overrides.system.cache", as --set takes them, are "system.cache"; what is no other
/// file's is the scenario's.
std::string explained_path(std::string path) {
  for (const auto& [prefix, own] : {std::pair{"overrides.", ""}, std::pair{"systems.", "system."}}) {
    if (!path.starts_with(prefix)) continue;
    path = own + path.substr(std::string(prefix).size());
    const std::size_t number = path.find('.') + 1;
    if (*own != '\0' && number < path.size() && std::isdigit(static_cast<unsigned char>(path[number])) != 0)
      path.erase(number, std::min(path.find('.', number), path.size() - 1) + 1 - number);
  }
  for (const FileKind& kind : kFileKinds)
    if (path == kind.name || path.starts_with(std::string(kind.name) + ".")) return path;
  return "scenario." + path;
}

bool is_below(const std::string& path, const std::string& section) {
  return path.starts_with(section + ".") || path.starts_with(section + "[].");
}

/// The last of a path's names, of "scenario.workload.arrivals" "arrivals"; an entry of a list is its list's.
std::string last_name(std::string path) {
  while (path.ends_with("[]")) path.resize(path.size() - 2);
  return path.substr(path.rfind('.') + 1);
}

/// As a key of a scenario is asked for: what all of them begin with makes no two alike.
std::string without_scenario(const std::string& path) {
  constexpr std::string_view kPrefix = "scenario.";
  return path.starts_with(kPrefix) ? path.substr(kPrefix.size()) : path;
}

/// The keys that are called so, wherever they stand; else those whose name is nearest, or the nearest path.
std::string nearest_keys(const std::string& path, const std::vector<KeyRow>& table) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> known, names, as_asked;
  for (const KeyRow& row : table) {
    known.push_back(row.path);
    names.push_back(last_name(row.path));
    as_asked.push_back(without_scenario(row.path));
  }
  const std::string name = path.find('.') == std::string::npos ? closest_name(path, names) : "";
  if (name.empty()) return suggestion(without_scenario(explained_path(path)), as_asked);
  std::set<std::string> called_so;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (names[i] == name) called_so.insert(known[i]);
  std::string text;
  std::size_t named = 0;
  for (const std::string& key : called_so)
    if (++named <= kMost)
      text += (named == 1 ? "'" : named == called_so.size() ? " or '" : ", '") + key + "'";
  if (named > kMost) text += " or " + std::to_string(named - kMost) + " more";
  return " (did you mean " + text + "?)";
}

/// Empty where there is no such key.
std::vector<KeyRow> rows_at(const std::string& path, const std::vector<KeyRow>& table) {
  std::vector<KeyRow> rows;
  const auto take = [&](const auto& wanted) {
    std::copy_if(table.begin(), table.end(), std::back_inserter(rows), wanted);
  };
  if (path.empty())  // an overview
    take([](const KeyRow& row) { return std::count(row.path.begin(), row.path.end(), '.') == 1; });
  else
    take([&, wanted = explained_path(path)](const KeyRow& row) {
      return row.path == wanted || is_below(row.path, wanted);
    });
  return rows;
}

std::string default_text(const KeyRow& row) {
  if (row.needed) return "needed";
  return row.fallback ? "default " + *row.fallback : "";
}

Json key_json(const KeyRow& row) {
  Json forms = Json::array();
  for (const AskedKey& form : row.forms) {
    Json one{{"form", to_string(form.form)}, {"of_each_entry", !form.path.empty()}};
    if (!form.bounds.empty()) one["bounds"] = form.bounds.substr(1);
    if (!form.choices.empty()) one["choices"] = form.choices;
    forms.push_back(one);
  }
  Json json{{"key", row.path},       {"takes", taken_text(row)},
            {"forms", forms},        {"sourced", row.sourced},
            {"needed", row.needed},  {"default", row.fallback ? Json(*row.fallback) : Json()},
            {"meaning", row.meaning}};
  if (!row.example.empty()) json["example"] = row.example;
  if (!row.policy.empty()) json["policy"] = row.policy;
  return json;
}

std::string key_text(const KeyRow& row, std::size_t width) {
  std::string takes = taken_text(row);
  if (const std::string text = default_text(row); !text.empty()) takes += "; " + text;
  if (row.sourced) takes += "; with its source";
  if (!row.example.empty()) takes += "; example " + row.example;
  const std::string name = row.path + (row.policy.empty() ? "" : " (of " + row.policy + ")");
  return hanging(name + ":", row.meaning, 4, width) + hanging("   ", takes, 4, width);
}

/// Of all paths in their order, each row once; without paths an overview. Throws InputError for all that are
/// no keys.
std::vector<KeyRow> rows_of(const std::vector<std::string>& paths, const std::vector<KeyRow>& table) {
  std::vector<KeyRow> rows;
  std::vector<Problem> problems;
  std::set<std::pair<std::string, std::string>> taken;
  for (const std::string& path : paths.empty() ? std::vector<std::string>{""} : paths) {
    std::vector<KeyRow> found = rows_at(path, table);
    if (found.empty()) problems.push_back({"", 0, 0, "no key '" + path + "'" + nearest_keys(path, table)});
    for (KeyRow& row : found)
      if (taken.emplace(row.path, row.policy).second) rows.push_back(std::move(row));
  }
  if (problems.empty()) return rows;
  problems.back().what += std::string("; `moelab keys` lists those of ") + kFileKindsText;
  throw InputError(std::move(problems));
}

void print_keys(const std::vector<std::string>& paths, const std::string& format) {
  const std::vector<KeyRow> keys = key_table(), rows = rows_of(paths, keys);
  if (format == "json") {
    Json all = Json::array();
    for (const KeyRow& row : rows) all.push_back(key_json(row));
    std::cout << all.dump(2) << "\n";
    return;
  }
  for (const KeyRow& row : rows) std::cout << key_text(row, output_width());
  if (paths.empty()) std::cout << "\nWhat is within a section: moelab keys system.cache\n";
}

}  // namespace

void add_keys(CLI::App& program) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  const auto format = std::make_shared<std::string>("table");
  CLI::App* command = program.add_subcommand("keys", std::string("Explain the keys of ") + kFileKindsText +
                                                         ": what each takes, its default, an example");
  command->add_option(
      "PATH", *paths,
      "Keys, or sections with all that is in them: workload, system.cache, device.ssd; as --set "
      "has it: budget, overrides.system.threads (default: an overview)");
  add_format(*command, *format);
  add_example(*command, "moelab keys system.cache\n  moelab keys workload.closed_loop");
  command->callback([paths, format] { print_keys(*paths, *format); });
}

}  // namespace moelab::cli
