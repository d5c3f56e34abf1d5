// moelab policies: every policy by family.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/list_command.hpp"
#include "cli/wrapped_text.hpp"
#include "models/json.hpp"
#include "policies/policy_families.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPolicyColumn = 26, kParameterColumn = 20;

std::string bounds_and_default(const PolicyParameter& p) {
  return "(default " + Json(p.default_value).dump() + ", " + Json(p.low).dump() + " to " +
         (std::isfinite(p.high) ? Json(p.high).dump() : "any") + ")";
}

/// Its paper or code, and the library that brought it.
std::string source_of(const PolicyInfo& info) {
  return std::string(info.source) + (info.library.empty() ? "" : "; " + std::string(info.library));
}

/// Its policies that have all words that were asked for in family, name, help or source.
std::vector<PolicyInfo> asked_of(const ListOptions& options, const PolicyFamily& family) {
  std::vector<PolicyInfo> asked;
  for (const PolicyInfo& info : family.policies)
    if (has_words(options, {family.name, std::string(info.name), std::string(info.help), source_of(info)}))
      asked.push_back(info);
  return asked;
}

[[noreturn]] void refuse_policy_words(const ListOptions& options) {
  std::vector<std::string> known;
  for (const PolicyFamily& family : policy_families()) {
    known.push_back(family.name);
    for (const PolicyInfo& info : family.policies) known.emplace_back(info.name);
  }
  refuse_words(options, "policy", "policies", known);
}

Json family_json(const PolicyFamily& family, const std::vector<PolicyInfo>& asked) {
  Json all = Json::array();
  for (const PolicyInfo& info : asked) {
    Json parameters = Json::array();
    for (const PolicyParameter& p : info.parameters)
      parameters.push_back({{"name", p.name},
                            {"unit", p.unit},
                            {"default", p.default_value},
                            {"low", p.low},
                            {"high", p.high},
                            {"help", p.help}});
    all.push_back({{"family", family.name},
                   {"name", info.name},
                   {"help", info.help},
                   {"source", info.source},
                   {"parameters", parameters}});
    if (!info.library.empty()) all.back()["library"] = info.library;
  }
  return all;
}

std::string family_text(const PolicyFamily& family, const std::vector<PolicyInfo>& asked, std::size_t width) {
  std::string text = family.name + "\n";
  for (const PolicyInfo& info : asked) {
    text += hanging("  " + std::string(info.name), std::string(info.help) + " [" + source_of(info) + "]",
                    kPolicyColumn, width);
    for (const PolicyParameter& p : info.parameters)
      text += hanging("      " + std::string(p.name), std::string(p.help) + " " + bounds_and_default(p),
                      kParameterColumn, width);
  }
  return text;
}

void list_policies(const ListOptions& options) {
  Json all = Json::array();
  std::string text;
  for (const PolicyFamily& family : policy_families()) {
    const std::vector<PolicyInfo> asked = asked_of(options, family);
    if (asked.empty()) continue;
    for (Json& policy : family_json(family, asked)) all.push_back(std::move(policy));
    text += family_text(family, asked, output_width());
  }
  if (all.empty()) refuse_policy_words(options);
  std::cout << (options.format == "json" ? all.dump(2) + "\n" : text);
}

}  // namespace

void add_policies(CLI::App& program) {
  add_policy_library(*add_list(program, "policies",
                               "List every policy by family, with its parameters and source", list_policies,
                               ListSources::none, ListWords::taken));
}

}  // namespace moelab::cli
