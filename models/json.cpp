#include "models/json.hpp"

#include <algorithm>
#include <string>

#include "models/input_error.hpp"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::lexer<nlohmann::json, moelab::JsonText>;
template class nlohmann::detail::lexer<nlohmann::ordered_json, moelab::JsonText>;
template class nlohmann::detail::parser<nlohmann::json, moelab::JsonText>;
template class nlohmann::detail::parser<nlohmann::ordered_json, moelab::JsonText>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;

namespace moelab {

int json_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

void check_json_depth(const std::string& name, std::string_view text) {
  constexpr int kDeepest = 64;
  if (json_depth(text) > kDeepest)
    throw InputError(name, "nests deeper than " + std::to_string(kDeepest) + " levels");
}

}  // namespace moelab
