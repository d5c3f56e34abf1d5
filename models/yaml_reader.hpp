// Strict reading of YAML (and so of JSON): unknown and duplicate keys, missing keys, wrong types, missing
// units and values out of range are problems with file, line, what was expected and the closest known name.
// Reading goes on after a problem with a harmless value, so that one pass collects everything; the caller
// throws at the end with Problems::throw_if_any().
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/input_error.hpp"
#include "models/units.hpp"

namespace moelab {

template <class T>
struct Range {
  T low;
  T high;
  bool low_open = false;   // true: low itself is out of range
  bool high_open = false;  // true: high itself is out of range
};
template <class T>
Range<T> at_least(T low) {
  return {low, T(std::numeric_limits<double>::infinity())};
}
template <class T>
Range<T> above(T low) {
  return {low, T(std::numeric_limits<double>::infinity()), true, false};
}

class YamlMap;

/// One node of a document: a scalar, a list or a map. Cheap to copy; valid as long as its YamlDocument.
class YamlNode {
 public:
  bool is_scalar() const;  // a null too
  bool is_null() const;    // "key:" with nothing behind it, "null" or "~"
  bool is_list() const;
  bool is_map() const;
  int line() const;

  // Each reads the node as one thing, or adds a problem that names `what` and returns a harmless value: one
  // within the range, and 1 where that is possible. An empty `what` stands for the node's dotted path.
  std::string text(std::string_view what) const;
  double number(std::string_view what, Range<double> range) const;  // finite, no unit
  std::int64_t integer(std::string_view what, std::int64_t low, std::int64_t high) const;
  bool boolean(std::string_view what) const;  // true or false
  template <class Q>
  Q quantity(std::string_view what,
             Range<Q> range) const;  // Q: Seconds, Bytes, BytesPerSecond, Flops, FlopsPerSecond
  std::vector<YamlNode> list(std::string_view what) const;
  YamlMap map(std::string_view what, const std::string& expected = "a map") const;

  /// The node and all below it as JSON that reads back as the same: numbers, booleans and nulls as such, all
  /// else as texts.
  std::string json() const;

  /// Adds a problem at this node's place.
  void fail(std::string what) const;

 private:
  friend class YamlDocument;
  friend class YamlMap;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// A map whose keys are asked for one by one; done() then reports every key that was not asked for.
/// A getter without fallback reports a missing key; with one, absence yields the fallback. What stands for a
/// missing or ill-typed map is empty and silent: one mistake is one problem. Copies share the known keys.
class YamlMap {
 public:
  bool has(std::string_view key) const;       // asking makes the key known
  YamlNode node(std::string_view key) const;  // required; a null scalar node (after a problem) when absent
  int line() const;

  std::string text(std::string_view key, std::optional<std::string> fallback = {}) const;
  double number(std::string_view key, Range<double> range, std::optional<double> fallback = {}) const;
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high,
                       std::optional<std::int64_t> fallback = {}) const;
  bool boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  template <class Q>
  Q quantity(std::string_view key, Range<Q> range, std::optional<Q> fallback = {}) const;
  /// One of `names`; returns its index. Anything else is a problem with the closest name.
  std::size_t choice(std::string_view key, std::span<const std::string> names,
                     std::optional<std::size_t> fallback = {}) const;
  std::vector<YamlNode> list(std::string_view key) const;           // required
  std::vector<YamlNode> list_or_empty(std::string_view key) const;  // optional
  /// Required; `expected` is what a message says that it is not.
  YamlMap map(std::string_view key, const std::string& expected = "a map") const;
  std::optional<YamlMap> optional_map(std::string_view key) const;
  std::vector<std::string> keys() const;  // in file order; does not make them known

  void fail(std::string_view key,
            std::string what) const;  // a problem at the key's place (the map's, if absent)
  void done() const;                  // reports the unknown keys

 private:
  friend class YamlNode;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A parsed file. Keeps a reference to `problems`, which must outlive it and every node of it.
///
/// Accepted is YAML's plain part, and so all of JSON: UTF-8, one document, text keys, no anchors, aliases,
/// tags or %-directives, and at most a million structural characters (brackets, commas, colons, quotes and so
/// on).
class YamlDocument {
 public:
  /// Reads a file. A file that cannot be opened, is larger than 64 MiB, nests deeper than 64 levels, uses
  /// anchors or aliases, holds several documents or is not YAML is a problem; root() is then an empty map.
  static YamlDocument from_file(const std::string& path, Problems& problems);
  /// `name` stands for the file in messages.
  static YamlDocument from_text(std::string name, std::string_view text, Problems& problems);

  /// Replaces or adds the value at a dotted path, as `--set a.b=value` asks; list items by index
  /// ("systems.0.cache.policy"), keys and maps created as needed. The value is parsed as YAML, so that lists
  /// and maps can be given in flow style; problems with it name the path instead of a line. A path through a
  /// scalar, or to a list item that is not there, is a problem. To be called before any node is taken.
  void set(std::string_view dotted_path, std::string_view value);

  YamlNode node() const;
  YamlMap root() const;  // a problem when the document is not a map
  const std::string& name() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace moelab
