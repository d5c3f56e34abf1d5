#include "cli/keys/read_key_table.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "cli/keys/key_examples.hpp"
#include "cli/keys/key_readings.hpp"
#include "models/runtime.hpp"
#include "models/units.hpp"
#include "policies/policy_families.hpp"

namespace moelab::cli {
namespace {

using Form = AskedKey::Form;

std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string::npos ? 0 : dot);
}

std::string bounds_text(double low, double high) {
  if (std::isfinite(low) && std::isfinite(high))
    return " from " + shortest_text(low) + " to " + shortest_text(high);
  if (std::isfinite(low)) return " at least " + shortest_text(low);
  return std::isfinite(high) ? " at most " + shortest_text(high) : "";
}

/// The family that has just these policies; nullptr: none.
const PolicyFamily* family_of(const std::vector<std::string>& names,
                              const std::vector<PolicyFamily>& families) {
  const auto has = [&](const PolicyFamily& family) {
    return std::equal(names.begin(), names.end(), family.policies.begin(), family.policies.end(),
                      [](const std::string& name, const PolicyInfo& info) { return name == info.name; });
  };
  const auto found = std::find_if(families.begin(), families.end(), has);
  return found == families.end() ? nullptr : &*found;
}

/// Rows of the parameters of all policies that a section may name, in the place of what was asked of some.
std::vector<KeyRow> parameter_rows(KeyReadings& readings) {
  const std::vector<PolicyFamily> families = policy_families();
  std::vector<KeyRow> rows;
  std::vector<std::pair<std::string, const PolicyFamily*>> sections;
  for (const auto& [path, forms] : readings.forms)
    for (const AskedKey& form : forms)
      if (const PolicyFamily* family = form.choices.empty() ? nullptr : family_of(form.choices, families))
        if (path.ends_with(".policy")) sections.emplace_back(parent_of(path), family);
  for (const auto& [section, family] : sections)
    for (const PolicyInfo& info : family->policies)
      for (const PolicyParameter& p : info.parameters) {
        const std::string path = section + "." + std::string(p.name);
        readings.forms.erase(path);
        rows.push_back({.path = path,
                        .forms = {{.form = Form::number,
                                   .bounds = bounds_text(p.low, p.high),
                                   .range = {p.low, p.high}}},
                        .fallback = shortest_text(p.default_value),
                        .meaning = std::string(p.help),
                        .policy = std::string(info.name)});
      }
  return rows;
}

/// The forms of a value with its source, as those of the key that it is of; what else belongs to it goes.
void take_in_source(KeyReadings& readings, KeyRow& row) {
  auto& known = readings.forms;
  const std::string& path = row.path;
  const auto value = known.find(path + ".value"), points = known.find(path + ".points");
  if (!known.contains(path + ".source") || (value == known.end() && points == known.end())) return;
  row.sourced = true;
  row.curve = points != known.end() || known.contains(path + ".rate");
  std::vector<AskedKey>& forms = row.forms;
  std::erase_if(forms, [](const AskedKey& form) { return form.form == Form::map; });
  if (value != known.end()) forms.insert(forms.end(), value->second.begin(), value->second.end());
  std::erase_if(known, [&](const auto& one) {
    const std::string& key = one.first;
    return key.starts_with(path + ".") && key.find('.', path.size() + 1) == std::string::npos;
  });
}

/// Of numbers the widest range: bounds may depend on what else a file says (layers that there are).
void keep_widest(std::vector<AskedKey>& forms) {
  const auto within = [](const AskedRange& inner, const AskedRange& outer) {
    return inner.low >= outer.low && inner.high <= outer.high &&
           (inner.low > outer.low || !outer.low_open || inner.low_open) &&
           (inner.high < outer.high || !outer.high_open || inner.high_open);
  };
  for (std::size_t i = 0; i < forms.size(); ++i)
    std::erase_if(forms, [&, kept = forms[i]](const AskedKey& form) {
      return form.form == kept.form && form.path == kept.path && form.choices == kept.choices &&
             form.range != kept.range && within(form.range, kept.range);
    });
}

/// Of a runtime's constants, and those of a class of GPUs, their own table says what they are.
std::string meaning_of(const std::string& path) {
  const std::string_view own = key_meaning(path);
  if (!own.empty()) return std::string(own);
  for (const std::string_view constants : {"runtime.constants.", "runtime.classes.NAME."})
    if (path.starts_with(constants))
      for (const Runtime::Constant& constant : Runtime::constants())
        if (path.substr(constants.size()) == constant.name) return std::string(constant.what);
  return "";
}

KeyRow row_of(const std::string& path, KeyReadings& readings) {
  const std::set<AskedKey>& asked = readings.forms.at(path);
  KeyRow row{.path = path, .forms = {asked.begin(), asked.end()}};
  take_in_source(readings, row);
  // What a list is of stands for the list.
  if (const auto items = readings.forms.find(path + "[]"); items != readings.forms.end())
    for (AskedKey item : items->second)
      if (item.form != Form::map && item.form != Form::list) {
        std::erase_if(row.forms, [](const AskedKey& form) { return form.form == Form::list; });
        item.path = "[]";
        row.forms.push_back(std::move(item));
      }
  // Readers look at a text before they take it for one of several.
  const auto is_choice = [](const AskedKey& form) { return form.form == Form::choice; };
  if (std::any_of(row.forms.begin(), row.forms.end(), is_choice))
    std::erase_if(row.forms, [](const AskedKey& form) { return form.form == Form::text; });
  std::set<std::string> fallbacks;
  for (const AskedKey& form : row.forms)
    if (form.fallback && !form.fallback->empty()) fallbacks.insert(*form.fallback);
  const bool any_fallback = std::any_of(row.forms.begin(), row.forms.end(),
                                        [](const AskedKey& form) { return form.fallback.has_value(); });
  if (fallbacks.size() == 1) row.fallback = *fallbacks.begin();
  keep_widest(row.forms);
  const auto always = readings.always.find(parent_of(path));
  row.needed = !any_fallback && readings.unasked.contains(path) && always != readings.always.end() &&
               always->second.contains(path.substr(parent_of(path).size() + 1));
  row.meaning = meaning_of(path);
  return row;
}

}  // namespace

std::vector<KeyRow> read_key_table() {
  KeyReadings readings = key_readings();
  std::vector<KeyRow> rows = parameter_rows(readings);
  std::vector<std::string> paths;
  for (const auto& [path, forms] : readings.forms) paths.push_back(path);
  for (const std::string& path : paths)
    if (!path.ends_with("[]") && readings.forms.contains(path)) rows.push_back(row_of(path, readings));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const KeyRow& a, const KeyRow& b) { return a.path < b.path; });
  std::map<std::string, std::string> examples = key_examples(rows);
  for (KeyRow& row : rows)
    if (row.policy.empty()) row.example = examples[row.path];
  return rows;
}

}  // namespace moelab::cli
