#include "cli/json_schema.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "models/json.hpp"

namespace moelab::cli {
namespace {

using Form = AskedKey::Form;
using Json = nlohmann::ordered_json;

/// A key with what is in it; "[]" are the entries of a list, "NAME" keys that the file's writer chooses.
struct KeyTree {
  std::vector<const KeyRow*> rows;  // several of parameters that several policies have
  std::map<std::string, KeyTree> below;
};

/// How strictly a file is described where it stands.
enum class Strictness : std::uint8_t {  // in falling order
  whole,                                // all that is needed must be there
  in_place,                             // in a scenario, whose overrides may bring what is needed
  overrides  // names alone: overrides are texts, and policies that lack a parameter pass it over
};

/// What stands in another file's place is described where that file is.
struct Elsewhere {
  std::string_view path, kind;
  Strictness strictness;
};
constexpr std::array<Elsewhere, 9> kElsewhere = {
    {{"scenario.systems[]", "system", Strictness::whole},  // which overrides do not reach
     {"scenario.model", "model", Strictness::in_place},
     {"scenario.device", "device", Strictness::in_place},
     {"scenario.cluster", "cluster", Strictness::in_place},
     {"cluster.devices.NAME", "device", Strictness::in_place},
     {"sweep.scenario", "scenario", Strictness::in_place},
     {"scenario.runtime", "runtime", Strictness::whole},
     {"scenario.speculation.draft.model", "model", Strictness::whole},
     {"system.runtime", "runtime", Strictness::whole}}};
/// A part of a user's own has the keys of a row of a table of parts.
struct OwnPart {
  std::string_view path, table;
};
constexpr std::array<OwnPart, 3> kOwnParts = {
    {{"scenario.machine.gpu", "gpus"}, {"scenario.machine.cpu", "cpus"}, {"scenario.machine.ssd", "ssds"}}};
/// Values of keys of scenarios, whose paths stand there: what each takes, its scenario's reader says.
constexpr std::array<std::string_view, 4> kAnyValue = {"sweep.set.NAME", "sweep.axes.NAME",
                                                       "sweep.zip[].NAME", "sweep.series.NAME"};

std::string definition(std::string_view kind, Strictness strictness) {
  constexpr std::array<std::string_view, 3> kNames = {"", " in place", " overrides"};
  return std::string(kind) + std::string(kNames[static_cast<std::size_t>(strictness)]);
}

/// "a.b[].c" -> a, b, [], c
std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> steps;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    std::string step = path.substr(at, end - at);
    const bool of_list = step.ends_with("[]");
    if (of_list) step.resize(step.size() - 2);
    steps.push_back(std::move(step));
    if (of_list) steps.emplace_back("[]");
    at = end + 1;
  }
  return steps;
}

KeyTree tree_of(const std::vector<KeyRow>& table) {
  KeyTree root;
  for (const KeyRow& row : table) {
    KeyTree* place = &root;
    for (const std::string& step : steps_of(row.path)) place = &place->below[step];
    place->rows.push_back(&row);
  }
  return root;
}

/// A number as JSON has it: whole where it is.
Json written_number(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::abs(value) <= kExact) return static_cast<std::int64_t>(value);
  return value;
}

void add_range(const AskedRange& range, Json& schema) {
  if (std::isfinite(range.low))
    schema[range.low_open ? "exclusiveMinimum" : "minimum"] = written_number(range.low);
  if (std::isfinite(range.high))
    schema[range.high_open ? "exclusiveMaximum" : "maximum"] = written_number(range.high);
}

/// A number and one of the units that models/units.hpp takes.
Json quantity_json(std::string_view units) {
  return {{"type", "string"},
          {"pattern", R"(^[ \t]*-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*()" + std::string(units) +
                          R"()[ \t]*$)"}};
}

Json scalar_json(const AskedKey& form) {
  switch (form.form) {
    case Form::text:  // what YAML would take for a number is a text too
      return {{"type", {"string", "number", "boolean"}}};
    case Form::choice:
      return {{"enum", form.choices}};
    case Form::boolean:
      return {{"type", "boolean"}};
    case Form::integer:
    case Form::number: {
      Json schema{{"type", form.form == Form::integer ? "integer" : "number"}};
      add_range(form.range, schema);
      return schema;
    }
    case Form::time:
      return quantity_json("h|min|s|ms|us|ns");
    case Form::size:
      return quantity_json("[kMGT]?B|[KMGT]iB");
    case Form::bandwidth:
      return quantity_json("[kMGT]?B/s|[KMGT]iB/s|[MG]bit/s");
    case Form::operations:
      return quantity_json("[kMGTP]?FLOP");
    case Form::operation_rate:
      return quantity_json("[kMGTP]?FLOP/s");
    case Form::list:
      return {{"type", "array"}};
    case Form::map:
      return {{"type", "object"}};
  }
  return Json::object();
}

/// One of several, each once.
Json any_of(std::vector<Json> alternatives) {
  std::vector<Json> each;
  for (Json& one : alternatives)
    if (std::find(each.begin(), each.end(), one) == each.end()) each.push_back(std::move(one));
  if (each.size() == 1) return each.front();
  return each.empty() ? Json::object() : Json{{"anyOf", each}};
}

/// A default is written as a file would have it.
Json default_json(const KeyRow& row) {
  const auto is_number = [](const AskedKey& form) {
    return form.form == Form::integer || form.form == Form::number;
  };
  const std::string& text = *row.fallback;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() &&
      std::any_of(row.forms.begin(), row.forms.end(), is_number))
    return written_number(value);
  if (text == "true" || text == "false") return text == "true";
  return text;
}

std::string description_of(const KeyRow& row) {
  std::string text = row.policy.empty() ? row.meaning : "of " + row.policy + ": " + row.meaning;
  const std::string takes = taken_text(row);
  if (takes != "map" && takes != "list")
    text += " (" + takes + (row.sourced ? ", with its source" : "") + ")";
  return text;
}

class SchemaWriter {
 public:
  explicit SchemaWriter(const std::vector<KeyRow>& table) : tree_(tree_of(table)) {}

  Json of_kind(const FileKind& kind) {
    Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                {"title", "moelab " + std::string(kind.name)},
                {"description", kind.title}};
    schema.update(file(kind.name, Strictness::whole));
    Json definitions = Json::object();
    while (!wanted_.empty()) {  // each may want others
      const auto [name, place] = *wanted_.begin();
      wanted_.erase(wanted_.begin());
      if (!definitions.contains(name)) definitions[name] = file(place.first, place.second);
    }
    if (!definitions.empty()) schema["$defs"] = std::move(definitions);
    return schema;
  }

 private:
  Json file(std::string_view kind, Strictness strictness) {
    strictness_ = strictness;
    return object(tree_.below.at(std::string(kind)), std::string(kind));
  }

  Json reference(std::string_view kind, Strictness strictness) {
    const std::string name = definition(kind, strictness);
    wanted_.emplace(name, std::pair(kind, strictness));
    std::string escaped = name;
    for (std::size_t at = 0; (at = escaped.find(' ', at)) != std::string::npos;)
      escaped.replace(at, 1, "%20");
    return {{"$ref", "#/$defs/" + escaped}};
  }

  /// What stands at a path in the place of another file's name; nothing: no file does.
  std::optional<Json> elsewhere(const std::string& path) {
    for (const Elsewhere& one : kElsewhere)
      if (one.path == path) return reference(one.kind, std::max(strictness_, one.strictness));
    return std::nullopt;
  }

  /// Of a scenario: names of other files' keys.
  Json overrides() {
    Json properties = Json::object();
    for (const std::string_view kind : {"system", "model", "device", "cluster"})
      properties[kind] = reference(kind, Strictness::overrides);
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }

  Json row_of(const std::string& table) {
    return object(tree_.below.at("part").below.at(table).below.at("[]"), "part." + table + "[]");
  }

  Json map_at(const KeyTree& place, const std::string& path) {
    if (path == "scenario.overrides") return overrides();
    if (std::optional<Json> file = elsewhere(path)) return *std::move(file);
    for (const OwnPart& part : kOwnParts)
      if (part.path == path) return row_of(std::string(part.table));
    return object(place, path);
  }

  Json list_at(const KeyTree& place, const std::string& path, std::vector<Json> items) {
    const std::string each = path + "[]";
    if (const auto entries = place.below.find("[]"); entries != place.below.end())
      items.push_back(map_at(entries->second, each));
    else if (std::optional<Json> file = elsewhere(each))
      items.push_back(*std::move(file));
    Json schema{{"type", "array"}};
    if (!items.empty()) schema["items"] = any_of(std::move(items));
    return schema;
  }

  /// {value: ..., source: ...}, or a curve.
  Json with_source(const KeyRow& row, Json value) const {
    Json properties = Json::object(), source{{"type", {"string", "number", "boolean"}},
                                             {"description", "where it is from: one of the file's sources"}};
    if (!row.forms.empty()) properties["value"] = std::move(value);
    if (row.curve) {
      properties["points"] = {{"type", "array"},
                              {"items", {{"type", "array"}, {"minItems", 2}, {"maxItems", 2}}},
                              {"description", "amount and time: [[4 KiB, 80 us], [1 MiB, 330 us]]"}};
      properties["latency"] = scalar_json({.form = Form::time});
      properties["rate"] = scalar_json({.form = Form::bandwidth});
    }
    properties["source"] = std::move(source);
    properties["spread"] = {{"type", "array"}, {"description", "[p10, p50, p90] of what was measured"}};
    Json schema{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
    if (strictness_ != Strictness::overrides) {
      if (strictness_ == Strictness::whole) schema["required"] = {"source"};
      return schema;
    }
    for (auto& property : schema["properties"]) property = Json::object();
    return schema;
  }

  Json value_of(const KeyRow& row, const KeyTree& place) {
    std::vector<Json> alternatives, items;
    bool list = false;
    for (const AskedKey& form : row.forms)
      if (!form.path.empty())
        items.push_back(scalar_json(form));
      else if (form.form == Form::map)
        alternatives.push_back(map_at(place, row.path));
      else if (form.form != Form::list)
        alternatives.push_back(scalar_json(form));
      else
        list = true;
    if (list || !items.empty()) alternatives.push_back(list_at(place, row.path, std::move(items)));
    if (std::optional<Json> file = elsewhere(row.path)) alternatives.push_back(*std::move(file));
    Json value = any_of(std::move(alternatives));
    return row.sourced ? with_source(row, std::move(value)) : value;
  }

  Json described(const KeyRow& row, const KeyTree& place) {
    Json schema = value_of(row, place);
    const bool only_name =
        strictness_ == Strictness::overrides && !schema.contains("properties") && !schema.contains("$ref");
    if (only_name) schema = Json::object();
    schema["description"] = description_of(row);
    if (row.fallback && !only_name) schema["default"] = default_json(row);
    return schema;
  }

  /// Of a key; of a parameter that several policies have, what any of them takes.
  Json property(const KeyTree& place, const std::string& path) {
    if (std::find(kAnyValue.begin(), kAnyValue.end(), path) != kAnyValue.end())
      return {{"description", key_meaning(path)}};
    if (place.rows.empty()) return object(place, path);
    std::vector<Json> each;
    for (const KeyRow* row : place.rows) each.push_back(described(*row, place));
    return any_of(std::move(each));
  }

  Json object(const KeyTree& place, const std::string& path) {
    Json properties = Json::object(), needed = Json::array();
    Json schema{{"type", "object"}};
    for (const auto& [key, below] : place.below) {
      if (key == "[]" || key == "NAME") continue;
      properties[key] = property(below, path + "." + key);
      if (strictness_ == Strictness::whole && !below.rows.empty() && below.rows.front()->needed)
        needed.push_back(key);
    }
    const auto chosen = place.below.find("NAME");
    if (!properties.empty()) schema["properties"] = std::move(properties);
    schema["additionalProperties"] =
        chosen == place.below.end() ? Json(false) : property(chosen->second, path + ".NAME");
    if (!needed.empty()) schema["required"] = std::move(needed);
    if (Json rules = policy_rules(place); strictness_ != Strictness::overrides && !rules.empty())
      schema["allOf"] = std::move(rules);
    return schema;
  }

  /// A parameter stands beside a policy that has it, and is in the range of that one.
  static Json policy_rules(const KeyTree& place) {
    Json rules = Json::array();
    for (const auto& [key, below] : place.below) {
      std::vector<std::string> having;
      for (const KeyRow* row : below.rows)
        if (!row->policy.empty()) having.push_back(row->policy);
      if (having.empty()) continue;
      const auto rule = [&key = key](Json policy, Json then) {
        return Json{{"if", {{"properties", {{"policy", std::move(policy)}}}, {"required", {"policy"}}}},
                    {"then", {{"properties", {{key, std::move(then)}}}}}};
      };
      rules.push_back(rule({{"not", {{"enum", having}}}}, false));
      if (having.size() == 1) continue;
      for (const KeyRow* row : below.rows)
        rules.push_back(rule({{"const", row->policy}}, scalar_json(row->forms.front())));
    }
    return rules;
  }

  KeyTree tree_;
  Strictness strictness_ = Strictness::whole;
  std::map<std::string, std::pair<std::string_view, Strictness>> wanted_;  // definitions, by name
};

}  // namespace

Json json_schema(std::string_view kind, const std::vector<KeyRow>& table) {
  const auto* const found = std::find_if(kFileKinds.begin(), kFileKinds.end(),
                                         [&](const FileKind& one) { return one.name == kind; });
  return SchemaWriter(table).of_kind(*found);
}

}  // namespace moelab::cli
