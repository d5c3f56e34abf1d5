#include "cli/yaml_of_json.hpp"

#include <algorithm>
#include <string_view>

#include "models/json.hpp"
#include "models/yaml_text.hpp"

namespace moelab::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLine = 100;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Words, figures with units and names of files stand as they are; all else in quotes.
std::string text_of(const std::string& text) {
  static constexpr std::string_view kPlain = " -_./()";
  const auto plain = [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || kPlain.find(c) != std::string_view::npos;
  };
  const bool starts_well = !text.empty() && (is_letter(text.front()) || text.front() == '/');
  // "20 GB": a number stands in front of a unit, and nothing reads it as a number.
  const bool figure = !text.empty() && text.front() >= '0' && text.front() <= '9' &&
                      text.find(' ') < text.size() - 1 && is_letter(text.back());
  for (const char* word : {"null", "true", "false", "yes", "no", "on", "off"})
    if (text == word) return yaml::quoted(text);
  const bool stands =
      (starts_well || figure) && text.back() != ' ' && std::all_of(text.begin(), text.end(), plain);
  return stands ? text : yaml::quoted(text);
}

std::string key_of(const std::string& key) {
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return is_letter(c) || c == '_'; });
  return plain && key.size() > 1 ? text_of(key) : yaml::key(key);
}

/// In one line, within brackets.
std::string flow(const Json& node) {
  if (node.is_string()) return text_of(node.get<std::string>());
  if (!node.is_structured()) return node.dump();
  std::string items;
  for (const auto& [key, value] : node.items())
    items += (items.empty() ? "" : ", ") + (node.is_object() ? key_of(key) + ": " : "") + flow(value);
  return (node.is_object() ? "{" : "[") + items + (node.is_object() ? "}" : "]");
}

void append_block(const Json& node, std::size_t indent, std::string& out);

/// Behind a key or a dash, which stand at `indent`.
void append_value(const Json& node, std::size_t indent, std::string& out) {
  const std::string line = flow(node);
  const bool in_block = node.is_structured() && !node.empty() && indent + line.size() > kLine;
  if (!in_block) {
    out += " " + line + "\n";
    return;
  }
  out += "\n";
  append_block(node, indent + 2, out);
}

void append_block(const Json& node, std::size_t indent, std::string& out) {
  for (const auto& [key, value] : node.items()) {
    out += std::string(indent, ' ') + (node.is_object() ? key_of(key) + ":" : "-");
    append_value(value, indent, out);
  }
}

}  // namespace

std::string yaml_of_json(const Json& document) {
  std::string out;
  if (document.is_object() && !document.empty())
    append_block(document, 0, out);
  else
    out = flow(document) + "\n";
  return out;
}

}  // namespace moelab::cli
