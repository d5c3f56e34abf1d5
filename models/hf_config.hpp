// Typed access to the keys of a Hugging Face config.json, collecting everything wrong. Only hf_*.cpp use it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/input_error.hpp"

namespace moelab {

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
  /// A text of the map at `key`, of the text part's configuration or of the whole; "" when either is absent.
  std::string text_in(std::string_view key, std::string_view inner) const;
  std::optional<int> integer_in(std::string_view key, std::string_view inner) const;
  std::optional<std::vector<std::string>> texts(Keys keys) const;
  std::optional<std::vector<int>> integers(Keys keys, int low, int high) const;
  bool is_list(Keys keys) const;

  void fail(std::string what) const;
  void throw_if_any() const { problems_.throw_if_any(); }

 private:
  struct Found {
    std::string_view key;
    const nlohmann::json* value = nullptr;
  };
  Found find(Keys keys) const;
  const nlohmann::json* find_in(std::string_view key, std::string_view inner) const;
  int to_integer(std::string_view key, const nlohmann::json& value, int low, int high) const;

  std::string file_;
  std::unique_ptr<const nlohmann::json> document_;
  const nlohmann::json* root_ = nullptr;  // the document, or its text_config
  mutable Problems problems_;
};

}  // namespace moelab
