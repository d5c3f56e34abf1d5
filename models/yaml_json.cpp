// A document as JSON: what a run was given, in a form that any program reads and this one takes back.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "models/json.hpp"
#include "models/yaml_text.hpp"
#include "models/yaml_tree.hpp"

namespace moelab {
namespace {

using yaml::TreeNode;
using Kind = TreeNode::Kind;

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// What the reader takes for a number, in digits that JSON allows ("1." is none of its numbers); "" for what
/// is no number or none that a double holds.
std::string json_number(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (first >= text.size() || !is_digit(text[first])) return "";
  if (text[first] == '0' && first + 1 < text.size() && is_digit(text[first + 1])) return "";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return "";
  return nlohmann::json::accept(text) ? text : yaml::number(value);
}

void append(const TreeNode& node, std::string& out) {
  if (node.kind == Kind::null) {
    out += "null";
  } else if (node.kind == Kind::scalar) {
    const bool is_boolean = !node.quoted && (node.text == "true" || node.text == "false");
    const std::string number = node.quoted ? "" : json_number(node.text);
    out += is_boolean ? node.text : !number.empty() ? number : json_text(node.text);
  } else {
    const bool is_map = node.kind == Kind::map;
    out += is_map ? '{' : '[';
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (i > 0) out += ',';
      if (is_map) out += json_text(node.children[i]->key) + ':';
      append(*node.children[i], out);
    }
    out += is_map ? '}' : ']';
  }
}

}  // namespace

std::string YamlNode::json() const {
  std::string out;
  append(*impl_->node, out);
  return out;
}

}  // namespace moelab
