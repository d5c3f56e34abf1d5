// YamlDocument: where a tree comes from, and how --set changes it.
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "models/text_file.hpp"
#include "models/yaml_tree.hpp"

namespace moelab {
namespace {

using yaml::TreeNode;
using Kind = TreeNode::Kind;

/// The parts of "a.b.c"; empty when a part is empty or there are too many.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (end == begin || parts.size() == yaml::deepest_nesting) return {};
    parts.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The child that a part of a path names, made if it is a new key; nullptr, and in `trouble` why not.
TreeNode* step(TreeNode& node, const std::string& part, std::size_t source, std::string& trouble) {
  if (node.kind == Kind::scalar) {
    trouble = " is a single value; it has no '" + part + "'";
    return nullptr;
  }
  if (node.kind == Kind::list) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc() && end == part.data() + part.size();
    if (is_index && index < node.children.size()) return node.children[index].get();
    trouble = " is a list of " + std::to_string(node.children.size()) + "; it has no item '" + part + "'";
    return nullptr;
  }
  node.kind = Kind::map;  // a null becomes a map
  for (const auto& child : node.children) {
    if (child->key == part) return child.get();
  }
  auto child = std::make_unique<TreeNode>();
  child->key = part;
  child->source = source;
  child->parent = &node;
  node.children.push_back(std::move(child));
  return node.children.back().get();
}

std::unique_ptr<TreeNode> copy_of(const TreeNode& node) {
  auto copy = std::make_unique<TreeNode>();
  copy->kind = node.kind;
  copy->quoted = node.quoted;
  copy->source = node.source;
  copy->line = node.line;
  copy->column = node.column;
  copy->text = node.text;
  copy->key = node.key;
  copy->key_line = node.key_line;
  copy->key_column = node.key_column;
  copy->children.reserve(node.children.size());
  for (const auto& child : node.children) {
    copy->children.push_back(copy_of(*child));
    copy->children.back()->parent = copy.get();
  }
  return copy;
}

/// Trees of texts that had no problem. A process reads the same files again and again: systems and devices of
/// a sweep's points, parts of machines. Never waits: where another thread has the lock, or had it when this
/// process was forked from its own, a text is parsed anew.
class ParsedTexts {
 public:
  std::unique_ptr<TreeNode> find(std::string_view text) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    const auto found = trees_.find(text);
    return found == trees_.end() ? nullptr : copy_of(*found->second);
  }

  void keep(std::string_view text, const TreeNode& tree) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return;
    if (text.size() > kMostBytes || trees_.size() >= kMostTexts) return;
    trees_.try_emplace(std::string(text), copy_of(tree));
  }

 private:
  static constexpr std::size_t kMostBytes = 256 << 10, kMostTexts = 512;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<TreeNode>, std::less<>> trees_;
};

ParsedTexts& parsed_texts() {
  static ParsedTexts all;
  return all;
}

/// The tree of a document's text, whose nodes are from its first source; nullptr: it is not YAML.
std::unique_ptr<TreeNode> tree_of(std::string_view text, yaml::Tree& document) {
  if (std::unique_ptr<TreeNode> known = parsed_texts().find(text)) return known;
  const std::size_t before =
      document.problems->all().size();  // where it is full, nothing is known to be right
  std::unique_ptr<TreeNode> root = yaml::parse_text(text, document, 0, true);
  if (root != nullptr && before < Problems::kMost && document.problems->all().size() == before)
    parsed_texts().keep(text, *root);
  return root;
}

}  // namespace

struct YamlDocument::Impl : yaml::Tree {};

YamlDocument YamlDocument::from_text(std::string name, std::string_view text, Problems& problems) {
  YamlDocument document;
  document.impl_ = std::make_shared<Impl>();
  document.impl_->sources.push_back(std::move(name));
  document.impl_->problems = &problems;
  std::unique_ptr<TreeNode> root = tree_of(text, *document.impl_);
  document.impl_->failed = root == nullptr;
  if (root != nullptr) document.impl_->root = std::move(root);
  return document;
}

YamlDocument YamlDocument::from_file(const std::string& path, Problems& problems) {
  try {
    return from_text(path, read_text_file(path), problems);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) problems.add(problem);
    YamlDocument document = from_text(path, "", problems);
    document.impl_->failed = true;
    return document;
  }
}

void YamlDocument::set(std::string_view dotted_path, std::string_view value) {
  if (impl_->failed) return;
  const std::size_t source = impl_->sources.size();
  const std::string path(dotted_path);
  impl_->sources.push_back(name() + " (with " + path + "=" + yaml::shown(value) + ")");
  const auto report = [&](std::string what) {
    impl_->problems->add({impl_->sources[source], 0, 0, std::move(what)});
  };
  const std::vector<std::string> parts = split_path(dotted_path);
  if (parts.empty()) return report("'" + path + "' is not a path; expected names with dots, such as 'a.b'");

  std::unique_ptr<TreeNode> made = yaml::parse_text(value, *impl_, source, false);
  if (made == nullptr) return;
  TreeNode* node = impl_->root.get();
  for (const std::string& part : parts) {
    std::string trouble;
    TreeNode* const next = step(*node, part, source, trouble);
    if (next == nullptr) {
      const std::string place = yaml::path_of(*node);
      return report((place.empty() ? "the document" : place) + trouble);
    }
    node = next;
  }
  // In place: the node keeps its key and its parent.
  node->kind = made->kind;
  node->quoted = made->quoted;
  node->source = source;
  node->line = node->column = node->key_line = node->key_column = 0;
  node->text = std::move(made->text);
  node->children = std::move(made->children);
  for (const auto& child : node->children) child->parent = node;
}

YamlNode YamlDocument::node() const {
  YamlNode node;
  node.impl_ =
      std::make_shared<const YamlNode::Impl>(YamlNode::Impl{{impl_, impl_->root.get(), impl_->failed}});
  return node;
}

YamlMap YamlDocument::root() const {
  return node().map("");
}

const std::string& YamlDocument::name() const {
  return impl_->sources.front();
}

}  // namespace moelab
