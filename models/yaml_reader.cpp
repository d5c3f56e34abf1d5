// From YAML text to our own tree, through yaml-cpp's parser events. yaml-cpp by itself accepts duplicate
// keys, recurses as deep as the text nests, queues every token of a flow collection before the first event,
// and ends silently at a byte 0x04; so the text is checked before, and every event on its way.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "models/text_file.hpp"
#include "models/yaml_tree.hpp"

namespace moelab {
namespace {

using yaml::Tree;
using yaml::TreeNode;
using Kind = TreeNode::Kind;

// yaml-cpp holds up to three tokens of 88 bytes for each of them at a time.
constexpr std::size_t most_structural_characters = std::size_t{1} << 20;

/// What ends the reading of a text.
struct Refusal {
  int line = 0;
  int column = 0;
  std::string what;
};

/// Length of the UTF-8 character that starts here, 0 if there is none (overlong forms, surrogates and code
/// points above U+10FFFF included).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

/// Throws Refusal at the first byte that yaml-cpp must not see.
void check_bytes(std::string_view text) {
  if (text.size() > largest_text_file) throw Refusal{0, 0, "is larger than 64 MiB; expected a configuration"};
  constexpr std::string_view structural = "[]{},:?-&*!'\"";
  std::size_t structure = 0;
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const int column = static_cast<int>(i - line_start) + 1;
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n' && c != '\r' && c != '\t') || code == 0x7F) {
      throw Refusal{line, column, "a control character; expected a text file"};
    }
    if (c == '%' && column == 1)
      throw Refusal{line, column, "'%' begins a YAML directive; none is supported"};
    if (structural.find(c) != std::string_view::npos && ++structure > most_structural_characters) {
      throw Refusal{line, column, "more than a million structural characters; expected a configuration"};
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) throw Refusal{line, column, "bytes that are not UTF-8; expected a text file"};
    i += length;
    if (c != '\n') continue;
    ++line;
    line_start = i;
  }
}

/// The text with a comment as its last line. yaml-cpp reports a quote that is never closed only where the
/// text does not end with a line break; else it would take the rest of the file for the text in quotes.
std::string guarded(std::string_view text) {
  std::string copy;
  copy.reserve(text.size() + 2);
  copy = text;
  if (!copy.empty() && copy.back() != '\n' && copy.back() != '\r') copy += '\n';
  copy += '#';
  return copy;
}

/// Builds the tree from the events; throws Refusal on what is not accepted.
class Builder : public YAML::EventHandler {
 public:
  /// Without places, lines and columns are left 0.
  Builder(Tree& tree, std::size_t source, bool has_places)
      : tree_(tree), source_(source), has_places_(has_places) {}
  std::unique_ptr<TreeNode> take_root() {
    if (roots_.empty()) return std::make_unique<TreeNode>(TreeNode{.source = source_});
    return std::move(roots_.front());
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (!roots_.empty()) {
      refuse(mark, "a second document starts here; expected one (is this line indented right?)");
    }
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_anchor(mark, anchor);
    if (expects_key()) refuse(mark, "a key is missing; expected a name before ':'");
    attach(mark, Kind::null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "an alias ('*name'); expected the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (expects_key()) return begin_entry(mark, value);
    TreeNode* const node = attach(mark, Kind::scalar);
    node->text = value;
    node->quoted = tag == "!";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::list);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  /// A list or map whose end has not come yet.
  struct OpenNode {
    TreeNode* node;
    std::unique_ptr<TreeNode> entry;  // of a map: has the key, waits for the value
    std::map<std::string, int, std::less<>> key_lines;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string what) const {
    if (!has_places_) throw Refusal{0, 0, std::move(what)};
    throw Refusal{mark.line + 1, mark.column + 1, std::move(what)};
  }
  void check_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse(mark, "an anchor ('&name'); anchors and aliases are not supported");
  }
  /// yaml-cpp gives "?" to plain nodes and "!" to quoted ones.
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "?" && tag != "!") refuse(mark, "a tag (" + yaml::shown(tag) + "); tags are not supported");
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node->kind == Kind::map && open_.back().entry == nullptr;
  }
  void begin_entry(const YAML::Mark& mark, const std::string& key) {
    OpenNode& map = open_.back();
    map.entry = std::make_unique<TreeNode>();
    map.entry->key = key;
    map.entry->key_line = has_places_ ? mark.line + 1 : 0;
    map.entry->key_column = has_places_ ? mark.column + 1 : 0;
  }
  /// Puts a node where the next value belongs and returns it.
  TreeNode* attach(const YAML::Mark& mark, Kind kind) {
    TreeNode* const parent = open_.empty() ? nullptr : open_.back().node;
    const bool in_map = parent != nullptr && parent->kind == Kind::map;
    std::unique_ptr<TreeNode> node = in_map ? std::move(open_.back().entry) : std::make_unique<TreeNode>();
    node->kind = kind;
    node->source = source_;
    node->line = has_places_ ? mark.line + 1 : 0;
    node->column = has_places_ ? mark.column + 1 : 0;
    node->parent = parent;
    auto& home = parent == nullptr ? roots_ : in_map && is_duplicate(*node) ? duplicates_ : parent->children;
    home.push_back(std::move(node));
    return home.back().get();
  }
  /// Reports a key that its map had before.
  bool is_duplicate(const TreeNode& entry) {
    const auto [first, is_new] = open_.back().key_lines.try_emplace(entry.key, entry.key_line);
    if (is_new) return false;
    const std::string where = has_places_ ? "; first on line " + std::to_string(first->second) : "";
    tree_.problems->add({tree_.sources[source_], entry.key_line, entry.key_column,
                         "key " + yaml::shown(entry.key) + " is given twice" + where});
    return true;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (expects_key())
      refuse(mark, "a list or map where a key is expected (is its closing bracket missing?)");
    if (open_.size() == yaml::deepest_nesting) refuse(mark, "nests deeper than 64 levels");
    open_.push_back({attach(mark, kind), nullptr, {}});
  }

  Tree& tree_;
  std::size_t source_;
  bool has_places_;
  std::vector<std::unique_ptr<TreeNode>> roots_;       // one, once the parser is done
  std::vector<std::unique_ptr<TreeNode>> duplicates_;  // values of keys given again: read and dropped
  std::vector<OpenNode> open_;
};

/// Whether a line's indentation has a tab, which YAML does not take for one.
bool indented_by_tab(std::string_view text) {
  bool indents = true, tab = false;
  for (const char c : text) {
    const bool is_indentation = indents && (c == ' ' || c == '\t');
    tab = c == '\n' ? false : tab || (is_indentation && c == '\t');
    if (tab && !is_indentation) return true;
    indents = c == '\n' || is_indentation;
  }
  return false;
}

}  // namespace

std::unique_ptr<TreeNode> yaml::parse_text(std::string_view text, Tree& tree, std::size_t source,
                                           bool has_places) {
  const auto report = [&](int line, int column, const std::string& what) {
    tree.problems->add({tree.sources[source], has_places ? line : 0, has_places ? column : 0, what});
    return nullptr;
  };
  try {
    check_bytes(text);
    std::istringstream stream(guarded(text));
    YAML::Parser parser(stream);
    Builder builder(tree, source, has_places);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take_root();
  } catch (const Refusal& refusal) {
    return report(refusal.line, refusal.column, refusal.what);
  } catch (const YAML::Exception& error) {
    return report(
        error.mark.line + 1, error.mark.column + 1,
        "not valid YAML: " + error.msg +
            (indented_by_tab(text) ? "; a line is indented by a tab, where YAML takes spaces alone" : ""));
  }
}

}  // namespace moelab
