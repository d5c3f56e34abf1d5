#include "models/yaml_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "models/json.hpp"

namespace moelab::yaml {

// A JSON string is a YAML double-quoted string, but for DEL, which JSON leaves as it is and YAML escapes.
std::string quoted(std::string_view text) {
  const std::string json =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  for (const char c : json) {
    if (c == '\x7f')
      out += "\\x7f";
    else
      out += c;
  }
  return out;
}

std::string key(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  const bool is_plain = !text.empty() && text.front() >= 'a' && text.front() <= 'z' && text != "null" &&
                        std::all_of(text.begin(), text.end(), plain);
  return is_plain ? std::string(text) : quoted(text);
}

std::string number(double value) {
  std::array<char, 32> text{};
  for (int digits = 15;; ++digits) {
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
    double back = 0;
    std::from_chars(text.data(), end, back);
    if (back == value || digits == 17) return {text.data(), end};
  }
}

}  // namespace moelab::yaml
