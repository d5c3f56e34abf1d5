#include "cli/markdown_reference.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <vector>

#include "cli/keys/key_table.hpp"
#include "cli/metric_table.hpp"
#include "models/units.hpp"
#include "policies/policy_families.hpp"

namespace moelab::cli {
namespace {

using Cells = std::vector<std::string>;

/// Text in a cell of a table: what ends cells or begins HTML is written as Markdown has it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|')
      out += "\\|";
    else if (c == '<')
      out += "&lt;";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string code(std::string_view text) {
  if (text.empty()) return "";
  std::string out = "`";
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out + "`";
}

std::string row_text(const Cells& cells) {
  std::string text = "|";
  for (const std::string& one : cells) text += " " + one + " |";
  return text + "\n";
}

std::string table(const Cells& heads, const std::vector<Cells>& rows) {
  std::string text = row_text(heads) + row_text(Cells(heads.size(), "---"));
  for (const Cells& row : rows) text += row_text(row);
  return text + "\n";
}

// Keys.

/// "scenario.workload.batch" -> "workload", of the root "scenario"; "" of the root itself.
std::string section_of(const std::string& path, const std::string& root) {
  if (path.size() <= root.size()) return "";
  const std::string below = path.substr(root.size() + 1);
  return below.substr(0, below.find_first_of(".["));
}

/// A policy's parameters stand beside its name.
std::string example_of(const KeyRow& row) {
  if (row.policy.empty()) return row.example;
  const std::string name = row.path.substr(row.path.rfind('.') + 1);
  return "{policy: " + row.policy + ", " + name + ": " + row.fallback.value_or("") + "}";
}

Cells key_cells(const KeyRow& row, const std::string& root) {
  std::string name = code(row.path.substr(root.size() + 1));
  if (!row.policy.empty()) name += " of " + code(row.policy);
  std::string takes = cell(taken_text(row));
  if (row.sourced) takes += "; with its source";
  return {name, takes, row.needed ? "needed" : code(row.fallback.value_or("")), code(example_of(row)),
          cell(row.meaning)};
}

/// The keys of one kind of file: those without keys below them, then each section's.
std::string keys_of_root(const std::string& root, const std::vector<KeyRow>& keys) {
  std::map<std::string, std::vector<Cells>> sections;
  std::vector<Cells> single;
  for (const KeyRow& row : keys)
    if (row.path.starts_with(root + "."))
      sections[section_of(row.path, root)].push_back(key_cells(row, root));
  std::string text;
  const Cells heads = {"key", "takes", "default", "example", "meaning"};
  for (const auto& [section, rows] : sections) {
    if (rows.size() == 1)
      single.push_back(rows.front());
    else
      text += "### " + root + "." + section + "\n\n" + table(heads, rows);
  }
  return table(heads, single) + text;
}

// Policies.

std::string range_text(const PolicyParameter& p) {
  return shortest_text(p.low) + (std::isfinite(p.high) ? " to " + shortest_text(p.high) : " or more");
}

std::string family_page(const PolicyFamily& family) {
  std::vector<Cells> rows, parameters;
  for (const PolicyInfo& info : family.policies) {
    rows.push_back({code(info.name), cell(info.help), cell(info.source)});
    for (const PolicyParameter& p : info.parameters)
      parameters.push_back({code(info.name), code(p.name), std::string(p.unit), range_text(p),
                            shortest_text(p.default_value), cell(p.help)});
  }
  std::string text =
      "## " + std::string(family.name) + "\n\n" + table({"policy", "what it does", "source"}, rows);
  if (!parameters.empty())
    text += table({"policy", "parameter", "unit", "bounds", "default", "meaning"}, parameters);
  return text;
}

// Commands.

std::string default_of(const CLI::Option& option) {
  return option.get_required() ? "needed" : code(option.get_default_str());
}

std::string command_page(const CLI::App& command, const std::string& name) {
  const auto any = [](const CLI::App*) { return true; };
  const std::string example = command.get_footer();
  std::string text = "## " + name + "\n\n" + cell(command.get_description()) + "\n\n";
  std::vector<Cells> options, below;
  for (const CLI::Option* option : command.get_options())
    options.push_back(
        {code(option->get_positional() ? option->get_name(true) : option->get_name(false, true)),
         option->get_type_size_max() == 0 ? "" : cell(option->get_type_name()), default_of(*option),
         cell(option->get_description())});
  for (const CLI::App* one : command.get_subcommands(any))
    below.push_back({code(name + " " + one->get_name()), cell(one->get_description())});
  if (!below.empty()) text += table({"command", "what it does"}, below);
  text += table({"argument", "takes", "default", "meaning"}, options);
  constexpr std::string_view kHead = "Example:\n  ";
  if (example.starts_with(kHead)) text += "```\n" + example.substr(kHead.size()) + "\n```\n\n";
  for (const CLI::App* one : command.get_subcommands(any))
    text += command_page(*one, name + " " + one->get_name());
  return text;
}

}  // namespace

std::string keys_page() {
  const std::vector<KeyRow> keys = key_table();
  std::string text =
      "# Keys\n\nWhat files may say. `[]` stands for each entry of a list, `NAME` for a key that the file's "
      "writer "
      "chooses. A value *with its source* stands as `{value: 3.5 GB/s, source: datasheet}`, or is a curve "
      "with its "
      "source. Examples are of files that come with the program, where one has the key. `moelab keys "
      "SECTION` prints "
      "a section in the terminal.\n\n";
  for (const std::string& root : file_kinds(keys)) {
    std::string title = root + "s";
    title.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(title.front())));
    text += "## " + title + "\n\n" + keys_of_root(root, keys);
  }
  return text;
}

std::string policies_page() {
  std::string text =
      "# Policies\n\nEvery policy by family, with the paper or code that it is from. `moelab policies` "
      "prints them in "
      "the terminal.\n\n";
  for (const PolicyFamily& family : policy_families()) text += family_page(family);
  return text;
}

std::string metrics_page() {
  std::vector<Cells> rows;
  for (const MetricRow& row : metric_table())
    rows.push_back({code(row.path), cell(row.unit), cell(row.definition)});
  return "# Metrics\n\nEvery figure of a result, under its name in JSON (`--format json`, `--out`, and the "
         "column "
         "`result` of a store). `STAT` stands for mean, p50, p90, p95 and p99: percentiles are linear "
         "between two "
         "values of the sorted sample, the value at place q (n - 1) counted from 0. `STATE` stands for F, C, "
         "S, E and "
         "M, `CAUSE` for the causes of `stall_s`, `NAME` for a resource or a data set, `[]` for each entry "
         "of a list. "
         "`moelab metrics` prints them in the terminal.\n\n" +
         table({"in JSON", "unit", "definition"}, rows);
}

std::string commands_page(const CLI::App& program) {
  return "# Commands\n\nEvery command of the program, as its `--help` has it.\n\n" +
         command_page(program, "moelab");
}

}  // namespace moelab::cli
