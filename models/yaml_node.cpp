// YamlNode, and what nodes say about themselves in messages.
#include <algorithm>
#include <utility>

#include "models/yaml_tree.hpp"

namespace moelab {
namespace yaml {

std::string path_of(const TreeNode& node) {
  if (node.parent == nullptr) return {};
  std::string name = node.key;
  if (node.parent->kind == TreeNode::Kind::list) {
    const auto& siblings = node.parent->children;
    const auto self = std::find_if(siblings.begin(), siblings.end(),
                                   [&](const auto& child) { return child.get() == &node; });
    name = std::to_string(self - siblings.begin());
  }
  const std::string parent = path_of(*node.parent);
  return parent.empty() ? name : parent + "." + name;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string line(text.substr(0, kLongest + 1));
  cut_text(line, kLongest);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  return "'" + line + (line.size() < text.size() ? "..." : "") + "'";
}

void NodeRef::fail(std::string what) const {
  if (muted) return;
  tree->problems->add({tree->sources[node->source], node->line, node->column, std::move(what)});
}

std::string NodeRef::found(std::string_view what) const {
  std::string name = what.empty() ? path_of(*node) : std::string(what);
  if (name.empty()) name = "the document";
  switch (node->kind) {
    case TreeNode::Kind::null:
      return name + (node->parent == nullptr && what.empty() ? " is empty" : " has no value");
    case TreeNode::Kind::scalar:
      return shown(node->text) + " for " + name;
    case TreeNode::Kind::list:
      return name + " is a list";
    case TreeNode::Kind::map:
      return name + " is a map";
  }
  return name;
}

namespace {
void fail_shape(const NodeRef& ref, std::string_view what, const std::string& expected) {
  const bool is_scalar = ref.node->kind == TreeNode::Kind::scalar;
  ref.fail(ref.found(what) + (is_scalar ? " is a single value; expected " : "; expected ") + expected);
}
}  // namespace

std::vector<NodeRef> read_list(const NodeRef& ref, std::string_view what) {
  if (ref.node->kind != TreeNode::Kind::list) {
    fail_shape(ref, what, "a list");
    return {};
  }
  std::vector<NodeRef> items;
  items.reserve(ref.node->children.size());
  for (const auto& child : ref.node->children) items.push_back({ref.tree, child.get(), ref.muted});
  return items;
}

NodeRef read_map(const NodeRef& ref, std::string_view what, const std::string& expected) {
  if (ref.node->kind == TreeNode::Kind::map) return ref;
  fail_shape(ref, what, expected);
  static const TreeNode empty_map{.kind = TreeNode::Kind::map};
  return {ref.tree, &empty_map, true};
}

}  // namespace yaml

bool YamlNode::is_scalar() const {
  return !is_list() && !is_map();
}
bool YamlNode::is_null() const {
  return impl_->node->kind == yaml::TreeNode::Kind::null;
}
bool YamlNode::is_list() const {
  return impl_->node->kind == yaml::TreeNode::Kind::list;
}
bool YamlNode::is_map() const {
  return impl_->node->kind == yaml::TreeNode::Kind::map;
}
int YamlNode::line() const {
  return impl_->node->line;
}

std::string YamlNode::text(std::string_view what) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, {.form = AskedKey::Form::text});
  return yaml::read_text(*impl_, what).value_or("");
}
double YamlNode::number(std::string_view what, Range<double> range) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, yaml::asked_as(range));
  const auto value = yaml::read_number(*impl_, what, range);
  return value ? *value : yaml::harmless(range);
}
std::int64_t YamlNode::integer(std::string_view what, std::int64_t low, std::int64_t high) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, yaml::asked_as(low, high));
  return yaml::read_integer(*impl_, what, low, high).value_or(yaml::harmless(low, high));
}
bool YamlNode::boolean(std::string_view what) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, {.form = AskedKey::Form::boolean});
  return yaml::read_boolean(*impl_, what).value_or(false);
}
template <class Q>
Q YamlNode::quantity(std::string_view what, Range<Q> range) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, yaml::asked_as(range));
  const auto value = yaml::read_quantity<Q>(*impl_, what, range);
  return value ? *value : yaml::harmless(range);
}
template Seconds YamlNode::quantity(std::string_view, Range<Seconds>) const;
template Bytes YamlNode::quantity(std::string_view, Range<Bytes>) const;
template BytesPerSecond YamlNode::quantity(std::string_view, Range<BytesPerSecond>) const;
template Flops YamlNode::quantity(std::string_view, Range<Flops>) const;
template FlopsPerSecond YamlNode::quantity(std::string_view, Range<FlopsPerSecond>) const;

std::vector<YamlNode> YamlNode::list(std::string_view what) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, {.form = AskedKey::Form::list});
  std::vector<YamlNode> items;
  for (yaml::NodeRef& ref : yaml::read_list(*impl_, what)) {
    items.emplace_back();
    items.back().impl_ = std::make_shared<const Impl>(Impl{std::move(ref)});
  }
  return items;
}

YamlMap YamlNode::map(std::string_view what, const std::string& expected) const {
  if (yaml::is_noted(*impl_)) yaml::note_node(*impl_, {.form = AskedKey::Form::map});
  YamlMap map;
  map.impl_ = std::make_shared<YamlMap::Impl>(yaml::read_map(*impl_, what, expected));
  return map;
}

void YamlNode::fail(std::string what) const {
  impl_->fail(std::move(what));
}

}  // namespace moelab
