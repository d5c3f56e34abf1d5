#include "models/hf_config.hpp"

#include <utility>

#include "models/json.hpp"

namespace moelab {
namespace {

constexpr std::size_t kLargest = std::size_t{16} << 20;  // bytes

nlohmann::json parse_json(const std::string& file, std::string_view text) {
  if (text.size() > kLargest) throw InputError(file, "is larger than 16 MiB: not a model's configuration");
  check_json_depth(file, text);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(file, "is not JSON: " + std::string(said_by_library(error.what())));
  }
}

std::string list_of(HfConfig::Keys keys) {
  std::string text;
  for (const std::string_view key : keys) text += (text.empty() ? "'" : ", '") + std::string(key) + "'";
  return text;
}

}  // namespace

HfConfig::HfConfig(std::string file, std::string_view text)
    : file_(std::move(file)),
      document_(std::make_unique<const nlohmann::json>(parse_json(file_, text))),
      root_(document_.get()) {
  if (!document_->is_object()) throw InputError(file_, "is not a JSON object");
  const auto inner = document_->find("text_config");
  if (inner != document_->end() && inner->is_object()) root_ = &*inner;
}

HfConfig::~HfConfig() = default;

HfConfig::Found HfConfig::find(Keys keys) const {
  for (const std::string_view key : keys) {
    const auto found = root_->find(std::string(key));
    if (found != root_->end() && !found->is_null()) return {key, &*found};
  }
  return {};
}

int HfConfig::to_integer(std::string_view key, const nlohmann::json& value, int low, int high) const {
  if (value.is_number_integer()) {
    const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(INT64_MAX);
    const std::int64_t number = huge ? INT64_MAX : value.get<std::int64_t>();
    if (number >= low && number <= high) return static_cast<int>(number);
  }
  fail("'" + std::string(key) + "' must be an integer from " + std::to_string(low) + " to " +
       std::to_string(high));
  return low;
}

std::optional<int> HfConfig::integer(Keys keys, int low, int high) const {
  const Found found = find(keys);
  if (!found.value) return {};
  return to_integer(found.key, *found.value, low, high);
}

int HfConfig::required(Keys keys, int low, int high) const {
  if (const std::optional<int> value = integer(keys, low, high)) return *value;
  fail((keys.size() > 1 ? "none of the keys " : "no key ") + list_of(keys) + " is there");
  return low;
}

int HfConfig::integer_or(Keys keys, int low, int high, int fallback) const {
  return integer(keys, low, high).value_or(fallback);
}

bool HfConfig::boolean(Keys keys, bool fallback) const {
  const Found found = find(keys);
  if (!found.value) return fallback;
  if (found.value->is_boolean()) return found.value->get<bool>();
  fail("'" + std::string(found.key) + "' must be true or false");
  return fallback;
}

std::string HfConfig::text(Keys keys) const {
  const Found found = find(keys);
  if (!found.value) return {};
  if (found.value->is_string()) return found.value->get<std::string>();
  fail("'" + std::string(found.key) + "' must be a string");
  return {};
}

std::optional<std::vector<std::string>> HfConfig::texts(Keys keys) const {
  const Found found = find(keys);
  if (!found.value) return {};
  std::vector<std::string> values;
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!found.value->is_array() || !std::all_of(found.value->begin(), found.value->end(), is_text)) {
    fail("'" + std::string(found.key) + "' must be a list of strings");
    return {};
  }
  for (const nlohmann::json& item : *found.value) values.push_back(item.get<std::string>());
  return values;
}

std::optional<std::vector<int>> HfConfig::integers(Keys keys, int low, int high) const {
  const Found found = find(keys);
  if (!found.value) return {};
  if (!found.value->is_array()) {
    fail("'" + std::string(found.key) + "' must be a list of integers");
    return {};
  }
  std::vector<int> values;
  for (const nlohmann::json& item : *found.value) {
    values.push_back(
        to_integer(std::string(found.key) + "[" + std::to_string(values.size()) + "]", item, low, high));
  }
  return values;
}

bool HfConfig::is_list(Keys keys) const {
  const Found found = find(keys);
  return found.value && found.value->is_array();
}

void HfConfig::fail(std::string what) const {
  problems_.add({file_, 0, 0, std::move(what)});
}

std::optional<HfMap> HfConfig::map(std::string_view key) const {
  for (const nlohmann::json* root : {root_, document_.get()}) {
    const auto found = root->find(std::string(key));
    if (found == root->end() || found->is_null()) continue;
    if (found->is_object()) return HfMap(*this, std::string(key), *found);
    fail("'" + std::string(key) + "' must be a map");
    return {};
  }
  return {};
}

const nlohmann::json* HfMap::find(std::string_view key) const {
  const auto found = map_->find(std::string(key));
  return found == map_->end() || found->is_null() ? nullptr : &*found;
}

std::string HfMap::path_of(std::string_view key) const {
  return path_ + "." + shown_word(key);
}

void HfMap::fail(std::string_view key, const std::string& what) const {
  config_->fail("'" + path_of(key) + "' " + what);
}

std::optional<int> HfMap::integer(std::string_view key, int low, int high) const {
  const nlohmann::json* const found = find(key);
  if (found == nullptr) return {};
  return config_->to_integer(path_of(key), *found, low, high);
}

bool HfMap::boolean(std::string_view key, bool fallback) const {
  const nlohmann::json* const found = find(key);
  if (found == nullptr) return fallback;
  if (found->is_boolean()) return found->get<bool>();
  fail(key, "must be true or false");
  return fallback;
}

bool HfMap::is_text(std::string_view key) const {
  const nlohmann::json* const found = find(key);
  return found != nullptr && found->is_string();
}

std::string HfMap::text(std::string_view key) const {
  if (is_text(key)) return find(key)->get<std::string>();
  if (has(key)) fail(key, "must be a string");
  return {};
}

std::vector<std::string> HfMap::texts(std::string_view key) const {
  const nlohmann::json* const found = find(key);
  if (found == nullptr) return {};
  std::vector<std::string> values;
  const auto text_item = [](const nlohmann::json& item) { return item.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), text_item)) {
    fail(key, "must be a list of strings");
    return {};
  }
  for (const nlohmann::json& item : *found) values.push_back(item.get<std::string>());
  return values;
}

std::vector<int> HfMap::integers(std::string_view key, int low, int high) const {
  const nlohmann::json* const found = find(key);
  if (found == nullptr) return {};
  if (!found->is_array()) {
    fail(key, "must be a list of integers");
    return {};
  }
  std::vector<int> values;
  for (const nlohmann::json& item : *found)
    values.push_back(
        config_->to_integer(path_of(key) + "[" + std::to_string(values.size()) + "]", item, low, high));
  return values;
}

std::optional<HfMap> HfMap::map(std::string_view key) const {
  const nlohmann::json* const found = find(key);
  if (found == nullptr) return {};
  if (found->is_object()) return HfMap(*config_, path_of(key), *found);
  fail(key, "must be a map");
  return {};
}

std::vector<std::pair<std::string, HfMap>> HfMap::maps() const {
  std::vector<std::pair<std::string, HfMap>> all;
  for (const auto& [key, value] : map_->items()) {
    if (value.is_object()) {
      all.emplace_back(key, HfMap(*config_, path_of(key), value));
    } else {
      fail(key, "must be a map");
    }
  }
  return all;
}

}  // namespace moelab
