// Typed access to the keys of a Hugging Face config.json, collecting everything wrong. Only hf_*.cpp use it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {

class HfMap;

/// Different makers name one thing differently: a getter takes the names it may have, the first present
/// counts. A null counts as absent. After a problem, getters return a value in range.
class HfConfig {
 public:
  using Keys = std::initializer_list<std::string_view>;

  /// Throws InputError for text that is not a JSON object or nests deeper than 64 levels.
  HfConfig(std::string file, std::string_view text);
  ~HfConfig();

  bool has(Keys keys) const { return find(keys).value != nullptr; }
  std::optional<int> integer(Keys keys, int low, int high) const;
  int required(Keys keys, int low, int high) const;
  int integer_or(Keys keys, int low, int high, int fallback) const;
  bool boolean(Keys keys, bool fallback) const;
  std::string text(Keys keys) const;  // "" when absent
  std::optional<std::vector<std::string>> texts(Keys keys) const;
  std::optional<std::vector<int>> integers(Keys keys, int low, int high) const;
  bool is_list(Keys keys) const;
  /// The map at `key` of the text part's configuration or of the whole; what is no map is a problem.
  std::optional<HfMap> map(std::string_view key) const;
  bool has_text_part() const { return root_ != document_.get(); }  // of a model of several media

  void fail(std::string what) const;
  void throw_if_any() const { problems_.throw_if_any(); }

 private:
  friend class HfMap;
  struct Found {
    std::string_view key;
    const nlohmann::json* value = nullptr;
  };
  Found find(Keys keys) const;
  int to_integer(std::string_view key, const nlohmann::json& value, int low, int high) const;

  std::string file_;
  std::unique_ptr<const nlohmann::json> document_;
  const nlohmann::json* root_ = nullptr;  // the document, or its text_config
  mutable Problems problems_;
};

/// A map inside of a configuration, whose problems name their place by dotted keys. Valid as long as the
/// configuration. A null counts as absent.
class HfMap {
 public:
  HfMap(const HfConfig& config, std::string path, const nlohmann::json& map)
      : config_(&config), path_(std::move(path)), map_(&map) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<int> integer(std::string_view key, int low, int high) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;                              // "" when absent
  std::vector<std::string> texts(std::string_view key) const;                // none when absent
  std::vector<int> integers(std::string_view key, int low, int high) const;  // none when absent
  bool is_text(std::string_view key) const;
  std::optional<HfMap> map(std::string_view key) const;
  /// Its keys, and what is at each, which all have to be maps.
  std::vector<std::pair<std::string, HfMap>> maps() const;

  void fail(std::string_view key, const std::string& what) const;  // "'a.b' " and what
  const std::string& path() const { return path_; }

 private:
  const nlohmann::json* find(std::string_view key) const;
  std::string path_of(std::string_view key) const;

  const HfConfig* config_;
  std::string path_;
  const nlohmann::json* map_;
};

}  // namespace moelab
