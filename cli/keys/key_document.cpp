// The table of keys as JSON, written and read by one build of the program.
#include <cmath>
#include <limits>

#include "cli/keys/read_key_table.hpp"
#include "models/json.hpp"
#include "policies/policy_families.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity: a bound that is missing is null, and which infinity that is follows from the side.
Json bound_json(double bound) {
  return std::isfinite(bound) ? Json(bound) : Json();
}

double bound_of(const Json& json, double none) {
  return json.is_null() ? none : json.get<double>();
}

/// What rows of policies are made of: names, and parameters with their ranges, defaults and help.
Json policies_json() {
  Json all = Json::array();
  for (const PolicyFamily& family : policy_families())
    for (const PolicyInfo& info : family.policies) {
      Json parameters = Json::array();
      for (const PolicyParameter& p : info.parameters)
        parameters.push_back({p.name, p.help, p.default_value, bound_json(p.low), bound_json(p.high)});
      all.push_back({family.name, info.name, parameters});
    }
  return all;
}

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json();
}

std::optional<std::string> text_if_any(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::string>());
}

Json form_json(const AskedKey& form) {
  const AskedRange& range = form.range;
  return {form.path,
          static_cast<int>(form.form),
          form.bounds,
          bound_json(range.low),
          bound_json(range.high),
          range.low_open,
          range.high_open,
          form.choices,
          text_or_null(form.fallback)};
}

AskedKey form_of(const Json& json) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  return {.path = json.at(0),
          .form = static_cast<AskedKey::Form>(json.at(1).get<int>()),
          .bounds = json.at(2),
          .range = {bound_of(json.at(3), -kNone), bound_of(json.at(4), kNone), json.at(5), json.at(6)},
          .choices = json.at(7),
          .fallback = text_if_any(json.at(8))};
}

}  // namespace

std::string key_document(const std::vector<KeyRow>& rows) {
  Json all = Json::array();
  for (const KeyRow& row : rows) {
    Json forms = Json::array();
    for (const AskedKey& form : row.forms) forms.push_back(form_json(form));
    all.push_back({row.path, forms, row.sourced, row.curve, row.needed, text_or_null(row.fallback),
                   row.meaning, row.policy, row.example});
  }
  return Json{{"policies", policies_json()}, {"rows", all}}.dump();
}

std::vector<KeyRow> rows_of_key_document(std::string_view document) {
  const Json json = Json::parse(std::string(document));
  if (json.at("policies") != policies_json()) return {};
  std::vector<KeyRow> rows;
  for (const Json& row : json.at("rows")) {
    rows.push_back({.path = row.at(0),
                    .sourced = row.at(2),
                    .curve = row.at(3),
                    .needed = row.at(4),
                    .fallback = text_if_any(row.at(5)),
                    .meaning = row.at(6),
                    .policy = row.at(7),
                    .example = row.at(8)});
    for (const Json& form : row.at(1)) rows.back().forms.push_back(form_of(form));
  }
  return rows;
}

}  // namespace moelab::cli
