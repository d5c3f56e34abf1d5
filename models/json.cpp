#include "models/json.hpp"

template class nlohmann::detail::lexer<nlohmann::json, moelab::JsonText>;
template class nlohmann::detail::lexer<nlohmann::ordered_json, moelab::JsonText>;
template class nlohmann::detail::parser<nlohmann::json, moelab::JsonText>;
template class nlohmann::detail::parser<nlohmann::ordered_json, moelab::JsonText>;
template class nlohmann::detail::serializer<nlohmann::json>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
