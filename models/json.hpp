// nlohmann/json, whose reader and writer are compiled once (json.cpp), not in every source that reads or
// writes a document. Where a declaration will do: <nlohmann/json_fwd.hpp>.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace moelab {

/// The most lists and maps within each other, as far as the text is JSON. (A callback of the parser would see
/// it too, but the library looks at all of a map's entries after each map in it: minutes for a large file.)
int json_depth(std::string_view text);
/// Throws InputError about `name` where the text nests deeper than 64 levels: more than any format that is
/// read here, and few for what then calls itself (copies, comparisons, dumps).
void check_json_depth(const std::string& name, std::string_view text);

using JsonText = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;

/// nlohmann::json::sax_parse() of a text, without the readers of binary formats, which would be compiled for
/// each handler.
template <class Iterator, class Handler>
bool read_json_events(Iterator first, Iterator last, Handler& handler) {
  auto text = nlohmann::detail::input_adapter(std::move(first), std::move(last));
  return nlohmann::detail::parser<nlohmann::json, decltype(text)>(std::move(text)).sax_parse(&handler);
}

}  // namespace moelab

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::lexer<nlohmann::json, moelab::JsonText>;
extern template class nlohmann::detail::lexer<nlohmann::ordered_json, moelab::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::json, moelab::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::ordered_json, moelab::JsonText>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
