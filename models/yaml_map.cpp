// YamlMap: keys asked for one by one.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "models/yaml_tree.hpp"

namespace moelab {
namespace yaml {

MapRef::MapRef(NodeRef the_map) : ref(std::move(the_map)) {
  for (const auto& child : ref.node->children) index.emplace(child->key, child.get());
}

std::optional<NodeRef> MapRef::find(std::string_view key) {
  if (!asked.contains(key)) asked.emplace(key);
  const auto found = index.find(key);
  if (found == index.end()) return std::nullopt;
  return NodeRef{ref.tree, found->second, ref.muted};
}

void MapRef::report_missing(std::string_view key) const {
  const std::string path = path_of(*ref.node);
  ref.fail("missing key '" + std::string(key) + "'" + (path.empty() ? "" : " in " + path));
}

namespace {

/// What read(node) makes of the key's value; failing that the fallback, and failing that `harmless`.
template <class T, class Read>
T get(MapRef& map, std::string_view key, const std::optional<T>& fallback, T harmless, Read read) {
  if (const std::optional<NodeRef> node = map.find(key)) {
    if (std::optional<T> value = read(*node)) return *std::move(value);
  } else if (!fallback) {
    map.report_missing(key);
  }
  return fallback.value_or(std::move(harmless));
}

std::string shown_fallback(const std::string& text) {
  return text;
}
std::string shown_fallback(double value) {
  return shortest_text(value);
}
std::string shown_fallback(std::int64_t value) {
  return std::to_string(value);
}
std::string shown_fallback(bool value) {
  return value ? "true" : "false";
}
template <class Dimension>
std::string shown_fallback(Quantity<Dimension> value) {
  return to_string(value);
}

template <class T>
void note(const MapRef& map, std::string_view key, AskedKey asked, const std::optional<T>& fallback) {
  if (fallback) asked.fallback = shown_fallback(*fallback);
  note_key(map, key, std::move(asked));
}

using Form = AskedKey::Form;

}  // namespace
}  // namespace yaml

bool YamlMap::has(std::string_view key) const {
  return impl_->find(key).has_value();
}

int YamlMap::line() const {
  return impl_->ref.node->line;
}

YamlNode YamlMap::node(std::string_view key) const {
  if (yaml::is_noted(impl_->ref)) yaml::note_taken(*impl_, key);
  std::optional<yaml::NodeRef> ref = impl_->find(key);
  if (!ref) {
    impl_->report_missing(key);
    static const yaml::TreeNode absent;
    ref = yaml::NodeRef{impl_->ref.tree, &absent, true};
  }
  YamlNode node;
  node.impl_ = std::make_shared<const YamlNode::Impl>(YamlNode::Impl{*std::move(ref)});
  return node;
}

std::string YamlMap::text(std::string_view key, std::optional<std::string> fallback) const {
  if (yaml::is_noted(impl_->ref)) yaml::note(*impl_, key, {.form = yaml::Form::text}, fallback);
  return yaml::get<std::string>(*impl_, key, fallback, "",
                                [](const yaml::NodeRef& ref) { return yaml::read_text(ref, ""); });
}

double YamlMap::number(std::string_view key, Range<double> range, std::optional<double> fallback) const {
  if (yaml::is_noted(impl_->ref)) yaml::note(*impl_, key, yaml::asked_as(range), fallback);
  return yaml::get(*impl_, key, fallback, yaml::harmless(range),
                   [&](const yaml::NodeRef& ref) { return yaml::read_number(ref, "", range); });
}

std::int64_t YamlMap::integer(std::string_view key, std::int64_t low, std::int64_t high,
                              std::optional<std::int64_t> fallback) const {
  if (yaml::is_noted(impl_->ref)) yaml::note(*impl_, key, yaml::asked_as(low, high), fallback);
  return yaml::get(*impl_, key, fallback, yaml::harmless(low, high),
                   [&](const yaml::NodeRef& ref) { return yaml::read_integer(ref, "", low, high); });
}

bool YamlMap::boolean(std::string_view key, std::optional<bool> fallback) const {
  if (yaml::is_noted(impl_->ref)) yaml::note(*impl_, key, {.form = yaml::Form::boolean}, fallback);
  return yaml::get(*impl_, key, fallback, false,
                   [](const yaml::NodeRef& ref) { return yaml::read_boolean(ref, ""); });
}

template <class Q>
Q YamlMap::quantity(std::string_view key, Range<Q> range, std::optional<Q> fallback) const {
  if (yaml::is_noted(impl_->ref)) yaml::note(*impl_, key, yaml::asked_as(range), fallback);
  return yaml::get(*impl_, key, fallback, yaml::harmless(range),
                   [&](const yaml::NodeRef& ref) { return yaml::read_quantity<Q>(ref, "", range); });
}
template Seconds YamlMap::quantity(std::string_view, Range<Seconds>, std::optional<Seconds>) const;
template Bytes YamlMap::quantity(std::string_view, Range<Bytes>, std::optional<Bytes>) const;
template BytesPerSecond YamlMap::quantity(std::string_view, Range<BytesPerSecond>,
                                          std::optional<BytesPerSecond>) const;
template Flops YamlMap::quantity(std::string_view, Range<Flops>, std::optional<Flops>) const;
template FlopsPerSecond YamlMap::quantity(std::string_view, Range<FlopsPerSecond>,
                                          std::optional<FlopsPerSecond>) const;

std::size_t YamlMap::choice(std::string_view key, std::span<const std::string> names,
                            std::optional<std::size_t> fallback) const {
  if (yaml::is_noted(impl_->ref))
    yaml::note(*impl_, key, {.form = yaml::Form::choice, .choices = {names.begin(), names.end()}},
               fallback ? std::optional(names[*fallback]) : std::nullopt);
  const auto read = [&](const yaml::NodeRef& ref) -> std::optional<std::size_t> {
    const std::optional<std::string> name = yaml::read_text(ref, "");
    if (!name) return std::nullopt;
    const auto found = std::find(names.begin(), names.end(), *name);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
    ref.fail(ref.found("") + " is not a known name" + suggestion(*name, names));
    return std::nullopt;
  };
  return yaml::get<std::size_t>(*impl_, key, fallback, 0, read);
}

std::vector<YamlNode> YamlMap::list(std::string_view key) const {
  if (yaml::is_noted(impl_->ref)) yaml::note_key(*impl_, key, {.form = yaml::Form::list});
  return node(key).list("");
}

std::vector<YamlNode> YamlMap::list_or_empty(std::string_view key) const {
  return has(key) ? list(key) : std::vector<YamlNode>();
}

YamlMap YamlMap::map(std::string_view key, const std::string& expected) const {
  if (yaml::is_noted(impl_->ref)) yaml::note_key(*impl_, key, {.form = yaml::Form::map});
  return node(key).map("", expected);
}

std::optional<YamlMap> YamlMap::optional_map(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return map(key);
}

std::vector<std::string> YamlMap::keys() const {
  if (yaml::is_noted(impl_->ref)) yaml::note_chosen_keys(*impl_);
  std::vector<std::string> keys;
  for (const auto& child : impl_->ref.node->children) keys.push_back(child->key);
  return keys;
}

void YamlMap::fail(std::string_view key, std::string what) const {
  const auto found = impl_->index.find(key);
  if (found == impl_->index.end() || impl_->ref.muted) return impl_->ref.fail(std::move(what));
  const yaml::TreeNode& node = *found->second;
  const yaml::Tree& tree = *impl_->ref.tree;
  tree.problems->add({tree.sources[node.source], node.key_line, node.key_column, std::move(what)});
}

void YamlMap::done() const {
  if (yaml::is_noted(impl_->ref)) yaml::note_end(*impl_);
  const std::vector<std::string> known(impl_->asked.begin(), impl_->asked.end());
  const std::string path = yaml::path_of(*impl_->ref.node);
  for (const auto& child : impl_->ref.node->children) {
    if (impl_->asked.contains(child->key)) continue;
    fail(child->key, "unknown key " + yaml::shown(child->key) + (path.empty() ? "" : " in " + path) +
                         suggestion(child->key, known));
  }
}

}  // namespace moelab
