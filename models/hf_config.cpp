#include "models/hf_config.hpp"

#include <algorithm>
#include <utility>

#include "models/json.hpp"

namespace moelab {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kLargest = std::size_t{16} << 20;  // bytes

nlohmann::json parse_json(const std::string& file, std::string_view text) {
  if (text.size() > kLargest) throw InputError(file, "is larger than 16 MiB: not a model's configuration");
  const auto limit_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest) throw InputError(file, "nests deeper than " + std::to_string(kDeepest) + " levels");
    return true;
  };
  try {
    return nlohmann::json::parse(text, limit_depth);
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

const nlohmann::json* HfConfig::find_in(std::string_view key, std::string_view inner) const {
  for (const nlohmann::json* root : {root_, document_.get()}) {
    const auto map = root->find(std::string(key));
    if (map == root->end() || !map->is_object()) continue;
    const auto found = map->find(std::string(inner));
    return found == map->end() || found->is_null() ? nullptr : &*found;
  }
  return nullptr;
}

std::string HfConfig::text_in(std::string_view key, std::string_view inner) const {
  const nlohmann::json* const found = find_in(key, inner);
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  fail("'" + std::string(key) + "." + std::string(inner) + "' must be a string");
  return {};
}

std::optional<int> HfConfig::integer_in(std::string_view key, std::string_view inner) const {
  const nlohmann::json* const found = find_in(key, inner);
  if (found == nullptr) return {};
  return to_integer(std::string(key) + "." + std::string(inner), *found, 0, 64);
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

}  // namespace moelab
