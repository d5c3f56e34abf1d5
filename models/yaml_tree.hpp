// Inside of the YAML reader: the tree that a document becomes, and the checked reading of its scalars. Only
// models/yaml_*.cpp include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/yaml_asked.hpp"
#include "models/yaml_reader.hpp"

namespace moelab::yaml {

struct TreeNode {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  bool quoted = false;     // scalar in quotes or as a block: never a number or a boolean
  std::size_t source = 0;  // index in Tree::sources
  int line = 0;            // from 1; 0: no place
  int column = 0;
  std::string text = {};  // scalar
  std::string key = {};   // of this node in its map
  int key_line = 0;
  int key_column = 0;
  TreeNode* parent = nullptr;
  std::vector<std::unique_ptr<TreeNode>> children = {};  // of a list or a map, in file order
};

struct Tree {
  std::vector<std::string> sources;  // what problems call a file: the document, then one for each set()
  std::unique_ptr<TreeNode> root = std::make_unique<TreeNode>();
  bool failed = false;  // not YAML: that is said once, and nothing more about it
  Problems* problems = nullptr;
};

/// Reads a text into a tree of its own, whose nodes are from `source`; nullptr after a problem that leaves
/// nothing to read. A text without any value is a null. Without places, lines and columns are left 0.
std::unique_ptr<TreeNode> parse_text(std::string_view text, Tree& tree, std::size_t source, bool has_places);

inline constexpr std::size_t deepest_nesting = 64;  // lists and maps within each other

/// "systems.0.cache": how set() would address the node; "" for the root.
std::string path_of(const TreeNode& node);

/// A text as messages show it: in single quotes, on one line, cut after 60 bytes.
std::string shown(std::string_view text);

/// A node with what is needed to complain about it.
struct NodeRef {
  std::shared_ptr<const Tree> tree;
  const TreeNode* node = nullptr;
  // Stands for something missing or wrong that was reported already; what follows from it is not reported.
  bool muted = false;

  void fail(std::string what) const;
  /// "'x' for ssd.bandwidth" or "ssd.bandwidth is a list", for messages. An empty `what` means the path.
  std::string found(std::string_view what) const;
};

/// A map whose keys can be looked up quickly, and the keys that were asked for.
struct MapRef {
  explicit MapRef(NodeRef the_map);
  /// The value of a key, if present. Makes the key known.
  std::optional<NodeRef> find(std::string_view key);
  void report_missing(std::string_view key) const;

  NodeRef ref;
  std::map<std::string_view, const TreeNode*> index;
  std::set<std::string, std::less<>> asked;
};

// Each reads a scalar, or adds a problem and returns nothing. An empty `what` means the node's path.
std::optional<std::string> read_text(const NodeRef& ref, std::string_view what);
std::optional<double> read_number(const NodeRef& ref, std::string_view what, Range<double> range);
std::optional<std::int64_t> read_integer(const NodeRef& ref, std::string_view what, std::int64_t low,
                                         std::int64_t high);
std::optional<bool> read_boolean(const NodeRef& ref, std::string_view what);
template <class Q>
std::optional<Q> read_quantity(const NodeRef& ref, std::string_view what, Range<Q> range);

// A value within the range for the caller to go on with after a problem; 1 where it can be, as it divides.
double harmless(Range<double> range);
std::int64_t harmless(std::int64_t low, std::int64_t high);
template <class Q>
Q harmless(Range<Q> range) {
  return Q(harmless(Range<double>{range.low.value(), range.high.value(), range.low_open, range.high_open}));
}

// For AskedKeys (yaml_asked.hpp).
/// Whether there is one, which listens to the document.
bool is_noted(const NodeRef& ref);
/// What a key of a map, or a node, is asked as, before it is read. Where is_noted.
void note_key(const MapRef& map, std::string_view key, AskedKey asked);
void note_node(const NodeRef& ref, AskedKey asked);
/// A key that is taken as it comes.
void note_taken(const MapRef& map, std::string_view key);
/// A map whose keys are gone through, and one that was read to its end.
void note_chosen_keys(const MapRef& map);
void note_end(const MapRef& map);
template <class T>
inline constexpr AskedKey::Form kForm = AskedKey::Form::number;
template <>
inline constexpr AskedKey::Form kForm<Seconds> = AskedKey::Form::time;
template <>
inline constexpr AskedKey::Form kForm<Bytes> = AskedKey::Form::size;
template <>
inline constexpr AskedKey::Form kForm<BytesPerSecond> = AskedKey::Form::bandwidth;
template <>
inline constexpr AskedKey::Form kForm<Flops> = AskedKey::Form::operations;
template <>
inline constexpr AskedKey::Form kForm<FlopsPerSecond> = AskedKey::Form::operation_rate;
/// A number or a quantity within a range, and a whole number.
template <class T>
AskedKey asked_as(const Range<T>& range);
AskedKey asked_as(std::int64_t low, std::int64_t high);

/// The children of a list, or a problem and nothing.
std::vector<NodeRef> read_list(const NodeRef& ref, std::string_view what);
/// The node itself if it is a map, else a problem and a muted empty map.
NodeRef read_map(const NodeRef& ref, std::string_view what, const std::string& expected);

}  // namespace moelab::yaml

namespace moelab {

struct YamlNode::Impl : yaml::NodeRef {};
struct YamlMap::Impl : yaml::MapRef {
  using MapRef::MapRef;
};

}  // namespace moelab
