// moelab policies: every policy by family.
#include <cmath>
#include <iostream>
#include <string>

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

Json family_json(const PolicyFamily& family) {
  Json all = Json::array();
  for (const PolicyInfo& info : family.policies) {
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

std::string family_text(const PolicyFamily& family, std::size_t width) {
  std::string text = family.name + "\n";
  for (const PolicyInfo& info : family.policies) {
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
  for (const PolicyFamily& family : policy_families())
    if (options.format == "json")
      for (Json& policy : family_json(family)) all.push_back(std::move(policy));
    else
      std::cout << family_text(family, output_width());
  if (options.format == "json") std::cout << all.dump(2) << "\n";
}

}  // namespace

void add_policies(CLI::App& program) {
  add_policy_library(*add_list(program, "policies",
                               "List every policy by family, with its parameters and source", list_policies));
}

}  // namespace moelab::cli
