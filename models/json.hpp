// nlohmann/json, whose reader and writer are compiled once (json.cpp), not in every source that reads or
// writes a document. Where a declaration will do: <nlohmann/json_fwd.hpp>.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace moelab {

using JsonText = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;

}  // namespace moelab

extern template class nlohmann::detail::lexer<nlohmann::json, moelab::JsonText>;
extern template class nlohmann::detail::lexer<nlohmann::ordered_json, moelab::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::json, moelab::JsonText>;
extern template class nlohmann::detail::parser<nlohmann::ordered_json, moelab::JsonText>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
