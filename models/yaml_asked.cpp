#include "models/yaml_asked.hpp"

#include <algorithm>
#include <array>

#include "models/yaml_tree.hpp"

namespace moelab {
namespace {

thread_local AskedKeys* listening = nullptr;

/// path_of() without what differs from file to file.
std::string general_path(const yaml::TreeNode& node, const AskedKeys::OfPrefix& notes) {
  if (node.parent == nullptr) return {};
  const std::string parent = general_path(*node.parent, notes);
  if (node.parent->kind == yaml::TreeNode::Kind::list) return parent + "[]";
  const std::string key = notes.open.contains(parent) ? "NAME" : node.key;
  return parent.empty() ? key : parent + "." + key;
}

AskedKeys::OfPrefix* notes_of(const yaml::NodeRef& ref) {
  if (listening == nullptr || ref.muted) return nullptr;
  return AskedKeys::of_document(ref.tree->sources.front());
}

}  // namespace

std::string_view to_string(AskedKey::Form form) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "text", "one of",    "true or false", "whole number",        "number", "time",
      "size", "bandwidth", "operations",    "operations a second", "list",   "map"};
  return kNames[static_cast<std::size_t>(form)];
}

AskedKeys::AskedKeys(std::vector<std::string> prefixes)
    : prefixes_(std::move(prefixes)), found_(prefixes_.size()) {
  listening = this;
}
AskedKeys::~AskedKeys() {
  listening = nullptr;
}

AskedKeys::OfPrefix* AskedKeys::of_document(const std::string& name) {
  for (std::size_t i = 0; i < listening->prefixes_.size(); ++i)
    if (name.starts_with(listening->prefixes_[i])) return &listening->found_[i];
  return nullptr;
}

namespace yaml {

bool is_noted(const NodeRef& ref) {
  return notes_of(ref) != nullptr;
}

void note_node(const NodeRef& ref, AskedKey asked) {
  if (ref.node->parent == nullptr) return;
  AskedKeys::OfPrefix& notes = *notes_of(ref);
  asked.path = general_path(*ref.node, notes);
  notes.keys.insert(std::move(asked));
}

namespace {
std::string path_of_key(const MapRef& map, std::string_view key, const AskedKeys::OfPrefix& notes) {
  const std::string parent = general_path(*map.ref.node, notes);
  return (parent.empty() ? "" : parent + ".") +
         (notes.open.contains(parent) ? std::string("NAME") : std::string(key));
}
}  // namespace

void note_key(const MapRef& map, std::string_view key, AskedKey asked) {
  AskedKeys::OfPrefix& notes = *notes_of(map.ref);
  asked.path = path_of_key(map, key, notes);
  if (!asked.fallback && !map.asked.contains(key)) notes.unasked.insert(asked.path);
  notes.keys.insert(std::move(asked));
}

void note_taken(const MapRef& map, std::string_view key) {
  AskedKeys::OfPrefix& notes = *notes_of(map.ref);
  if (!map.asked.contains(key)) notes.unasked.insert(path_of_key(map, key, notes));
}

void note_chosen_keys(const MapRef& map) {
  AskedKeys::OfPrefix& notes = *notes_of(map.ref);
  notes.open.insert(general_path(*map.ref.node, notes));
}

void note_end(const MapRef& map) {
  AskedKeys::OfPrefix& notes = *notes_of(map.ref);
  std::set<std::string> here;
  for (const auto& child : map.ref.node->children) here.insert(child->key);
  const auto [found, is_new] = notes.always.emplace(general_path(*map.ref.node, notes), here);
  if (!is_new) std::erase_if(found->second, [&](const std::string& key) { return !here.contains(key); });
}

}  // namespace yaml
}  // namespace moelab
